"""There and back without Spark: what an executor writes for the daemon,
and the blocks that the daemon makes of it."""

import base64
import pickle
from pathlib import Path
from typing import Any

import pytest

from connectors.memory import Memory
from connectors.metronome import Metronome
from connectors.null import Null
from connectors.spark import Spark
from tests.nodes.world import World
from tests.operators.flows import Sink, around
from walflow.codecs import JSON
from walflow.event import Block, Frames, Origin, StreamId
from walflow.framing import LINES
from walflow.nodes.build import build
from walflow.plan.assemble import load
from walflow.receipt import Receipt

pa = pytest.importorskip("pyarrow")

from pyspark_walflow.stage import run_enveloped

PORTS = ("out", "more", "err")
BODY = """
    #!config engine = "spark"
    define script note
    script
      let $n = event.n;
      event
    end;
    create script note;
    select event from in into note;
    select event from note where event.n % 2 == 0 into out;
    select event from note where event.n % 2 != 0 into more;
"""
KNOWN: dict[str, Any] = {"memory": Memory, "metronome": Metronome, "null": Null, "spark": Spark}


class Moved:
    """The flow in the daemon. Its driver is the test."""

    def __init__(self, directory: Path) -> None:
        file = directory / "flow.troy"
        file.write_text(around(BODY, PORTS))
        assembly, found = load([file], KNOWN)
        assert assembly is not None, found
        self.world = World()
        nodes = build(assembly, self.world.metrics)
        by_name = {one.plan.id.name: one for one in nodes.connectors}
        self.spark = by_name["p/spark"]
        self.sinks = {port: Sink(by_name[f"to_{port}"], self.world) for port in PORTS}
        for sink in self.sinks.values():
            sink.start()
        connector = self.spark.plan.connector
        assert isinstance(connector, Spark)
        assert connector.pipeline is not None
        self.packed = base64.b64decode(connector.pipeline)

    def on_an_executor(self, *rows: tuple[str, int, str | None]) -> list[bytes]:
        values, times, metas = zip(*rows, strict=True)
        batch = pa.record_batch(
            [
                pa.array(values),
                pa.array(range(1, len(rows) + 1), pa.int64()),
                pa.array(times, pa.int64()),
                pa.array(metas, pa.string()),
            ],
            names=["value", "position", "ingest_ns", "meta"],
        )
        return [
            str(text).encode() for made in run_enveloped(self.packed, [batch]) for text in made.column(0).to_pylist()
        ]

    def take(self, lines: list[bytes]) -> Receipt:
        receipt = Receipt(lambda _: None, len(lines))
        frames = Frames(LINES.join(lines), len(lines), LINES)
        origin = Origin("results", 5, 4 + len(lines), 5)
        block = Block(StreamId("main::p/spark", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={}, origin=origin)
        self.spark.source.ports.out.accept(block)
        return receipt


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moved:
    monkeypatch.chdir(tmp_path)
    return Moved(tmp_path)


def test_ports_times_and_metadata_come_back(moved: Moved) -> None:
    lines = moved.on_an_executor(
        ('{"n": 1}', 100, None), ('{"n": 2}', 100, '{"key":"a"}'), ('{"n": 4}', 101, None), ('{"n": "x"}', 102, None)
    )
    receipt = moved.take(lines)
    out = moved.sinks["out"].waiting
    assert [(block.ingest_ns, list(block.event_metas or ()), block.frames.payloads()) for block in out] == [
        (100, [{"key": "a", "n": 2}], [b'{"n": 2}']),
        (101, [{"n": 4}], [b'{"n": 4}']),
    ]
    assert [list(block.positions or ()) for block in out] == [[5], [6]]
    assert moved.sinks["more"].got == [{"n": 1}]
    told = moved.sinks["err"].got
    assert [(one["error"], one["event"], one["source"]) for one in told if isinstance(one, dict)] == [
        ("`%` cannot be applied to a string and a whole number", {"n": "x"}, "main::p"),
        ("`%` cannot be applied to a string and a whole number", {"n": "x"}, "main::p"),
    ]
    for sink in moved.sinks.values():
        assert receipt.pending
        sink.ack()
    assert not receipt.pending
    assert receipt.done == len(lines)


def test_what_is_not_acked_counts_as_not_delivered(moved: Moved) -> None:
    receipt = moved.take(moved.on_an_executor(('{"n": 2}', 1, None), ('{"n": 1}', 1, None), ('{"n": 4}', 1, None)))
    moved.sinks["out"].ack()
    moved.sinks["more"].fail()
    moved.sinks["err"].ack()
    assert receipt.done < 3


def test_the_driver_gets_what_was_compiled_and_nothing_of_walflow(moved: Moved) -> None:
    shipped = pickle.loads(moved.packed)
    assert shipped.source == "main::p"
    assert b"walflow." not in shipped.regions["in"].table
