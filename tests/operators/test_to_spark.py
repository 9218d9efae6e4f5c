"""A pipeline on Spark with several inputs: which one an event has come to goes through the log,
without Spark here."""

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from connectors.memory import Memory
from connectors.metronome import Metronome
from connectors.null import Null
from connectors.spark import Spark
from tests.nodes.world import World
from tests.operators.flows import Sink
from walflow.nodes.build import build
from walflow.plan.assemble import load
from walflow_kernel.shipped import INPUT_META

pa = pytest.importorskip("pyarrow")

from pyspark_walflow.dealer import deal
from pyspark_walflow.stage import run_enveloped

FLOW = """
define flow main
flow
  define pipeline p
  from early, late
  into out, err
  pipeline
    #!config engine = "spark"
    define window two from tumbling with size = 2 end;
    select {"early": event.n, "key": $key} from early into out;
    SELECT
  end;
  define connector ticks from metronome with config = {"interval": 1} end;
  define connector null from null;
  create connector one from ticks;
  create connector two from ticks;
  create connector null;
  create pipeline p;
  connect /connector/one to /pipeline/p/early;
  connect /connector/two to /pipeline/p/late;
  connect /pipeline/p to /connector/null;
  connect /pipeline/p/err to /connector/null;
end;
deploy flow main;
"""
PLAIN = 'select {"late": event.n, "meta": $} from late where event.n > 0 into out;'
KEPT = 'select {"late": aggr::stats::count()} from late[two] group by event.n into out;'
KNOWN: dict[str, Any] = {"memory": Memory, "metronome": Metronome, "null": Null, "spark": Spark}


class TwoInputs:
    """The flow in the daemon; `rows` is what its log has, as Spark reads it."""

    def __init__(self, select: str) -> None:
        Path("flow.troy").write_text(FLOW.replace("SELECT", select))
        assembly, found = load(["flow.troy"], KNOWN)
        assert assembly is not None, found
        world = World()
        built = build(assembly, world.metrics)
        for operator in built.operators:
            operator.node.begin(world.scheduler)
        nodes = {one.plan.id.name: one for one in built.connectors}
        self._log, other = Sink(nodes["p/spark"], world), Sink(nodes["null"], world)
        self._log.start()
        other.start()
        self._outlets = {name: nodes[name].source.begin(world.context(f"main::{name}")) for name in ("one", "two")}
        connector = nodes["p/spark"].plan.connector
        assert isinstance(connector, Spark)
        assert connector.pipeline is not None
        self.packed = base64.b64decode(connector.pipeline)

    def send(self, connector: str, *values: object, **meta: object) -> None:
        self._outlets[connector].stream(meta).emit(values)

    def logged(self) -> Any:
        """One batch of Arrow, of `format("walflow")` with metadata;
        the last row is one of a stream on which nothing comes."""
        rows = [
            (payload.decode(), json.dumps(dict(block.meta)))
            for block in self._log.waiting
            for payload in block.frames.payloads()
        ]
        self._log.ack()
        values, metas = zip(*rows, (None, None), strict=True)
        positions, times = pa.array(range(1, len(values) + 1), pa.int64()), pa.array([1] * len(values), pa.int64())
        columns = [pa.array(values, pa.string()), positions, times, pa.array(metas, pa.string())]
        return pa.record_batch(columns, names=["value", "position", "ingest_ns", "meta"])


def texts(made: Any) -> list[str]:
    return [str(text) for text in made.column(0).to_pylist()]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_event_comes_to_its_input_and_leaves_in_the_order_of_the_log() -> None:
    flow = TwoInputs(PLAIN)
    flow.send("two", {"n": 1}, {"n": -1}, key="a")
    flow.send("one", {"n": 2}, key=3)
    flow.send("two", {"n": 4})
    lines = [
        json.loads(text) for made in run_enveloped(flow.packed, [flow.logged().slice(0, 4)]) for text in texts(made)
    ]
    assert [one["value"] for one in lines if one["port"] == "out"] == [
        {"late": 1, "meta": {"key": "a"}},
        {"early": 2, "key": 3},
        {"late": 4, "meta": {}},
    ]
    assert [one["meta"] for one in lines] == [{"key": "a"}, {"key": 3}, None]


def test_errors_are_apart_from_what_leaves_by_err() -> None:
    flow = TwoInputs(PLAIN)
    flow.send("two", {"n": "x"}, key="a")
    flow.send("one", {"m": 1})
    flow.send("two", {"n": 1})
    lines = [
        json.loads(text) for made in run_enveloped(flow.packed, [flow.logged().slice(0, 3)]) for text in texts(made)
    ]
    assert [(one["port"], one["rejected"]) for one in lines] == [("err", True), ("err", True), ("out", False)]
    assert [one["value"]["event"] for one in lines[:2]] == [{"n": "x"}, {"m": 1}]


def test_with_windows_the_buckets_get_the_input_too() -> None:
    flow = TwoInputs(KEPT)
    flow.send("two", {"n": 1}, {"n": 2}, key="a")
    flow.send("one", {"n": 1})
    dealt = [
        row for _, rows in deal(pickle.loads(flow.packed), [flow.logged()], 0, ticks=True) for row in rows.to_pylist()
    ]
    events = sorted((row["position"], row["port"], row["meta"]) for row in dealt if row["value"] is not None)
    assert events == [(1, "late", '{"key":"a"}'), (2, "late", '{"key":"a"}'), (3, "early", None)]


def test_the_mark_is_in_the_metadata_of_the_log_alone() -> None:
    flow = TwoInputs(PLAIN)
    flow.send("one", {"n": 2}, key=3)
    assert json.loads(flow.logged().column("meta")[0].as_py()) == {"key": 3, INPUT_META: "early"}
