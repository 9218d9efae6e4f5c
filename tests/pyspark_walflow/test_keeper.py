"""Pipelines with state, dealt to buckets: equal to the daemon, however a stream is cut into batches, and in order by
group. The functions that Spark is given, without Spark: tests/pyspark_walflow/test_language.py has the same with
it."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa

from pyspark_walflow import trial
from pyspark_walflow.dealer import deal_rows
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.keeper import BucketStep, Keeper, keep_sorted
from tests.compile.test_growth import TOO_LARGE
from tests.pyspark_walflow.bare import rows_of
from walflow.plan.second_host import load_pipeline
from walflow_kernel.shipped import ShippedPipeline
from walflow_kernel.weight import UNWEIGHED

pytestmark = pytest.mark.test  # half a second each

MS = 1_000_000
FLOW = """
define pipeline {name}
into out, other, err
pipeline
  define window few from tumbling with size = 3 end;
  define window soon from tumbling with interval = 250_000_000 end;
  define window later from tumbling with interval = 1_000_000_000 end;
  define script plain
  script
    match event of case %{{ present x }} => let event.twice = event.x * 2 default => null end;
    event
  end;
  create script plain;
  {body}
end;
"""
TARGET = (
    '{"g": group[0], "w": window, "n": aggr::stats::count(), "sum": aggr::stats::sum(event.twice), "last": '
    "aggr::win::last(event.x)}"
)
BODIES = {
    "tilted": (
        f"select event from in into plain; select {TARGET} from plain[soon, few, "
        "later] group by event.g into out having event.n > 0;"
    ),
    "filtered": (
        f"select event from in into plain; select {TARGET} from plain[few] where event.x > 0 group by event.g "
        "into out;"
    ),
    "beside": (
        f"select event from in into plain; select event from plain where event.x < 0 into other; select {TARGET} "
        "from plain[soon] group by event.g into out;"
    ),
}
steps = st.tuples(
    st.sampled_from([0, 0, 0, 1, 7 * MS, 50 * MS, 100 * MS, 360 * MS, 1500 * MS]),
    st.sampled_from(["a", "b", "c", "d", 1, 1.0, True, None, {"k": [1]}]),
    st.integers(-5, 50) | st.just("x"),
)
streams = st.lists(steps, min_size=1, max_size=40)
Row = list[Any]


def shipped(name: str, buckets: int) -> ShippedPipeline:
    return by_buckets(name)[buckets]


@cache
def by_buckets(name: str) -> dict[int, ShippedPipeline]:
    found: dict[int, ShippedPipeline] = {}
    with TemporaryDirectory() as directory:
        file = Path(directory, "flow.troy")
        file.write_text(FLOW.format(name=name, body=BODIES[name]))
        for buckets in (1, 5):
            one, errors = load_pipeline(file, name, {}, buckets)
            assert one is not None, errors
            found[buckets] = one
    return found


def events(steps: Sequence[tuple[int, object, object]]) -> list[Row]:
    """As `pyspark_walflow.trial` takes them."""
    found: list[Row] = []
    now = 1_700_000_000_000_000_000
    for position, (step, group, x) in enumerate(steps):
        now += step
        found.append([0, "in", position, now, None, json.dumps({"g": group, "x": x})])
    return found


def groups(rows: Sequence[Row]) -> dict[str, list[tuple[object, ...]]]:
    """What left, by port and group, in order. Where a row stands is not compared: that is the position of its
    bucket's event before it."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for _, port, position, nth, ingest_ns, _, value, error in sorted(
        rows, key=lambda row: (row[4], row[2], row[7] is not None, row[3])
    ):
        group = json.loads(value).get("g", json.loads(value).get("event"))
        at = (position, nth) if port != "out" else ()
        found.setdefault(f"{port} {json.dumps(group)}", []).append((ingest_ns, value, error, *at))
    return found


@pytest.mark.parametrize("name", BODIES)
@given(streams, st.data())
def test_neither_batches_nor_buckets_change_what_leaves(
    name: str,
    steps: list[tuple[int, object, object]],
    data: st.DataObject,
) -> None:
    given = events(steps)
    whole = list(rows_of({0: shipped(name, 1).packed()}, [given]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given)), max_size=5)))
    batches = [given[a:b] for a, b in zip([0, *cuts], [*cuts, len(given)], strict=True) if a < b]
    for buckets in (1, 5):
        cut = list(rows_of({0: shipped(name, buckets).packed()}, batches))
        assert groups(cut) == groups(whole)
        keys = [(row[1], row[2], row[3], row[7] is not None, row[6] if buckets > 1 else "") for row in cut]
        assert len(set(keys)) == len(keys), "port, position and number name one row"


@pytest.mark.parametrize("flush", [False, True])
@given(streams)
def test_data_with_an_end(flush: bool, steps: list[tuple[int, object, object]]) -> None:
    """Sorted by bucket, as Spark does it; a stream of the same events leaves windows open that `flush` closes."""
    given = events(steps)
    one = shipped("tilted", 5)
    table = pa.Table.from_batches([trial.table(given)])
    dealt: Any = pa.Table.from_batches(list(deal_rows(one.packed(), table.to_batches(max_chunksize=7))))
    batches = dealt.sort_by([("bucket", "ascending"), ("order", "ascending")]).to_batches(max_chunksize=5)
    found = [[0, *row.values()] for made in keep_sorted(one.packed(), flush, batches) for row in made.to_pylist()]
    streamed = list(rows_of({0: one.packed()}, [given]))
    if not flush:
        assert groups(found) == groups(streamed)
        return
    for key, rows in groups(streamed).items():
        assert groups(found)[key][: len(rows)] == rows
    counted = sum(json.loads(row[6])["n"] for row in found if row[1] == "out" and json.loads(row[6])["w"] == "soon")
    assert counted == sum(json.loads(row[5])["x"] != "x" for row in given), "each event is in one window"


def test_a_state_of_another_pipeline_is_refused() -> None:
    stored = BucketStep(Keeper(shipped("tilted", 1)), None).packed
    assert BucketStep(Keeper(shipped("tilted", 1)), stored).packed == stored
    for other in (shipped("tilted", 5), shipped("filtered", 1)):
        with pytest.raises(WalflowError, match="the checkpoint has the state of another pipeline"):
            BucketStep(Keeper(other), stored)
    with pytest.raises(WalflowError, match="cannot be read: it begins with b'pickle"):
        BucketStep(Keeper(shipped("tilted", 1)), b"pickle")


def test_a_large_state_leaves_in_pieces(tmp_path: Path) -> None:
    """A block of 200 events times a state of 200 KB would not be held at once."""
    file = tmp_path / "flow.troy"
    body = (
        "define script s script let state = event; emit state end; create script s; select event from in into s; "
        "select event from s into out;"
    )
    file.write_text(f"define pipeline p pipeline {body} end;")
    one, errors = load_pipeline(file, "p", {})
    assert one is not None, errors
    text = "x" * 200_000
    given = [[0, "in", at, 1, None, json.dumps({"n": at, "text": text})] for at in range(200)]
    keeper = Keeper(one)
    blobs = [
        row["packed"]
        for made in trial.deal_trial({0: one.packed()}, {0}, [trial.table(given)])
        for row in made.to_pylist()
    ]
    made = list(BucketStep(keeper, None).run(blobs))
    assert len(made) > 5
    assert max(batch.nbytes for batch in made) < 10 << 20
    rows = [row for batch in made for row in batch.to_pylist()]
    assert [json.loads(row["value"])["n"] for row in rows] == list(range(200))
    assert [(row["position"], row["nth"]) for row in rows] == [(at, 0) for at in range(200)]


def test_what_is_made_of_a_large_event_is_bounded_as_in_the_daemon(tmp_path: Path) -> None:
    """As without a state: test_stage.py. What the event has changed stays."""
    file = tmp_path / "flow.troy"
    listed = ", ".join(["x"] * 40)
    script = (
        f'state {{"n": 0}} script let state.n = state.n + 1; let x = event.x; {{"n": state.n, "all": [{listed}]}}'
    )
    file.write_text(
        f"define pipeline p pipeline\n define script s {script} end; create script s;\n"
        "select event from in into s; select event from s into out; end;"
    )
    one, errors = load_pipeline(file, "p", {})
    assert one is not None, errors
    given = [
        [0, "in", at, 1, None, json.dumps({"x": "x" * size})] for at, size in enumerate((1000, UNWEIGHED * 2, 1000))
    ]
    rows = sorted(rows_of({0: one.packed()}, [given]), key=lambda row: row[2])
    assert [row[1] for row in rows] == ["out", "err", "out"]
    assert [json.loads(rows[at][6])["n"] for at in (0, 2)] == [1, 3]
    assert rows[1][7] == TOO_LARGE
    assert "flow.troy:2:" in json.loads(rows[1][6])["at"]
