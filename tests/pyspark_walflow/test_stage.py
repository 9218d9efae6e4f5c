"""A pipeline over Arrow batches, as an executor runs it, without a JVM."""

import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.over_data import load
from pyspark_walflow.stage import run_stage
from tests.compile.test_growth import TOO_LARGE
from walflow_kernel.shipped import ShippedPipeline
from walflow_kernel.weight import UNWEIGHED

FLOW = """\
define pipeline counting
into out, small, err
args least = 5
pipeline
  select {"host": event.host, "twice": event.n * 2} from in where event.n >= args.least into out;
  select event from in where event.n < args.least into small;
end;

define pipeline mixed
pipeline
  select event from in into out;
  select {"n": event.n} from in where event.n > 1 into out;
end;

define pipeline inputs
from early, late
into out
pipeline
  select {"early": event} from early into out;
  select {"late": event} from late into out;
end;

define pipeline timed
pipeline
  use tremor::system;
  define script stamp script
    let $seen = event;
    {"at": system::nanotime(), "key": $key}
  end;
  create script stamp;
  select event from in into stamp;
  select event from stamp into out;
end;

define pipeline patterns
pipeline
  select event from in where match event of case %{s ~= re|x+|} => true case _ => false end into out;
end;

define pipeline percentiles
pipeline
  use aggr::stats;
  define window two from tumbling with size = 2 end;
  select stats::dds(event.n) from in[two] into out;
end;

define pipeline forty
pipeline
  define script forty script let x = event.x; [FORTY] end;
  create script forty;
  select event from in into forty;
  select event from forty into out;
end;

define pipeline histogram
pipeline
  use aggr::stats;
  define window two from tumbling with size = 2 end;
  select stats::hdr(event.n) from in[two] into out;
end;
""".replace("FORTY", ", ".join(["x"] * 40))


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.troy"
    file.write_text(FLOW)
    return file


def rows(pipeline: ShippedPipeline, *batches: Any) -> list[dict[str, Any]]:
    return [row for made in run_stage(pipeline.packed(), batches) for row in made.to_pylist()]


def texts(*values: str | bytes | None, kind: Any = None) -> Any:
    return pa.record_batch([pa.array(values, kind or pa.string())], names=["value"])


def told(made: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in made]


def test_what_leaves_by_each_port(flow: Path) -> None:
    made = rows(load(flow, "counting", {}), texts('{"host": "a", "n": 7}', '{"n": 1, "more": [1e400]}'))
    assert told(made, "port", "value", "error") == [
        ("out", '{"host":"a","twice":14}', None),
        ("small", '{"n": 1, "more": [1e400]}', None),
    ]


def test_args(flow: Path) -> None:
    made = rows(load(flow, "counting", {"least": 100}), texts('{"n": 99}'))
    assert told(made, "port") == [("small",)]


def test_a_broken_event_is_a_row_of_err_and_the_others_go_on(flow: Path) -> None:
    broken = ['{"n": 1', "", "\ufeff1", '{"n": "x"}', None, "[" * 600 + "]" * 600, '{"n": 1}{"n": 2}', "NaN"]
    made = rows(load(flow, "mixed", {}), texts('{"n": 1}', *broken, '{"n": 2}'))
    assert [row["value"] for row in made if row["port"] == "out"] == [
        '{"n": 1}',
        '{"n": "x"}',
        '{"n": 2}',
        '{"n":2}',
    ]
    errors = [row for row in made if row["port"] == "err"]
    assert all(row["error"] and json.loads(row["value"])["error"] == row["error"] for row in errors)
    assert [json.loads(row["value"]).get("text") for row in errors] == [
        '{"n": 1',
        "",
        "\ufeff1",
        None,
        "",
        "[" * 600 + "]" * 600,
        '{"n": 1}{"n": 2}',
        "NaN",
    ]
    assert json.loads(errors[3]["value"])["at"].endswith("flow.troy:12:39")
    assert json.loads(errors[3]["value"])["event"] == {"n": "x"}


def test_bytes_that_are_no_text(flow: Path) -> None:
    made = rows(load(flow, "mixed", {}), texts(b'{"n": 2}', b'"\xff"', kind=pa.binary()))
    assert told(made, "port", "value")[:2] == [("out", '{"n": 2}'), ("out", '{"n":2}')]
    assert json.loads(made[2]["value"])["text"] == '"\ufffd"'


def test_json_over_several_lines(flow: Path) -> None:
    made = rows(load(flow, "mixed", {}), texts('{\n"n":\n1}', '{"n": 3}\n'))
    assert [json.loads(row["value"]) for row in made] == [{"n": 1}, {"n": 3}, {"n": 3}]


def test_what_one_event_has_made_is_counted(flow: Path) -> None:
    made = rows(load(flow, "mixed", {}), texts('{"n": 2}', '{"n": 3}'))
    assert told(made, "nth", "value") == [(0, '{"n": 2}'), (1, '{"n":2}'), (0, '{"n": 3}'), (1, '{"n":3}')]


def test_several_inputs(flow: Path) -> None:
    pipeline = load(flow, "inputs", {})
    batch = pa.record_batch([pa.array(["1", "2", "3"]), pa.array(["late", "early", "late"])], names=["value", "port"])
    assert told(rows(pipeline, batch), "value") == [('{"early":2}',), ('{"late":1}',), ('{"late":3}',)]


def test_time_metadata_and_positions_come_through(flow: Path) -> None:
    batch = pa.record_batch(
        [
            pa.array(["1", "2", "3", "4"]),
            pa.array([10, 11, 12, 13], pa.int64()),
            pa.array([5, 5, 6, 6], pa.int64()),
            pa.array(['{"key": "a"}', '{"key": "b"}', None, "{"]),
        ],
        names=["value", "position", "ingest_ns", "meta"],
    )
    made = rows(load(flow, "timed", {}), batch)
    assert told(made, "port", "position", "ingest_ns", "meta", "value") == [
        ("out", 10, 5, '{"key":"a","seen":1}', '{"at":5,"key":"a"}'),
        ("out", 11, 5, '{"key":"b","seen":2}', '{"at":5,"key":"b"}'),
        ("err", 12, 6, '{"rejected":true}', made[2]["value"]),
        ("err", 13, 6, '{"rejected":true}', made[3]["value"]),
    ]
    assert made[3]["error"].startswith("the metadata is no JSON")
    assert made[2]["error"] == "`$key`: a record without `key`"


def test_a_mistake_of_walflows_is_an_error_of_its_event_alone(flow: Path) -> None:
    pipeline = load(flow, "mixed", {})
    region = pipeline.regions["in"]
    assert "if " in region.source
    doctored = region.source.replace(
        "for i, e in zip(numbers, events):", "for i, e in zip(numbers, events):\n        1 / i"
    )
    broken = pipeline._replace(regions={"in": region._replace(source=doctored)})
    made = rows(broken, texts('{"n": 1}', '{"n": 2}'))
    assert told(made, "port", "error") == [
        ("out", None),
        ("out", None),
        ("err", "internal error: ZeroDivisionError: division by zero"),
    ]


def test_what_it_needs_is_known(flow: Path) -> None:
    assert load(flow, "mixed", {}).needs == ()
    assert load(flow, "patterns", {}).needs == (("re2", "google-re2"),)
    assert load(flow, "percentiles", {}).needs == (("ddsketch", "ddsketch"),)
    assert load(flow, "histogram", {}).needs == (("hdrh", "hdrhistogram"),)


def test_a_pipeline_that_is_not_there_is_named(flow: Path) -> None:
    with pytest.raises(WalflowError, match="has no pipeline `mixd`") as refused:
        load(flow, "mixd", {})
    assert "`mixed`" in str(refused.value)


def test_args_that_are_not_declared(flow: Path) -> None:
    with pytest.raises(WalflowError, match="most"):
        load(flow, "counting", {"most": 1})


def test_a_value_that_is_none_of_a_pipeline(flow: Path) -> None:
    with pytest.raises(WalflowError, match="`least` is object"):
        load(flow, "counting", {"least": object()})


def test_operators_are_refused_with_a_way_out(tmp_path: Path) -> None:
    file = tmp_path / "flow.troy"
    file.write_text("""\
define pipeline batched
pipeline
  define operator some from generic::batch with count = 10 end;
  create operator some;
  select event from in into some;
  select event from some into out;
end;
""")
    with pytest.raises(WalflowError, match="operator generic::batch does not run on Spark") as refused:
        load(file, "batched", {})
    assert "a pipeline of its own" in str(refused.value)


def test_what_is_made_of_a_large_event_is_bounded_as_in_the_daemon(flow: Path) -> None:
    """Code that makes no more than 64 times what came weighs nothing, unless what came is large."""
    small, large = ('{"x": "' + "x" * size + '"}' for size in (1000, UNWEIGHED * 2))
    made = rows(load(flow, "forty", {}), texts(small, large, small))
    assert told(made, "port") == [("out",), ("out",), ("err",)]
    assert [len(json.loads(row["value"])) for row in made[:2]] == [40, 40]
    assert made[2]["error"] == TOO_LARGE
    assert json.loads(made[2]["value"])["at"].rpartition("flow.troy:")[2].startswith("49:")
