"""`pipeline(file, name)(frame)`: the same pipeline over a table, and over a stream."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_walflow import pipeline
from pyspark_walflow.errors import WalflowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLOW = """\
define flow main
flow
  define pipeline large
  into out, small, err
  args least
  pipeline
    select {"n": event.n} from in where event.n >= args.least into out;
    select event from in where event.n < args.least into small;
  end;
end;
"""
GIVEN = ['{"n": 1}', '{"n": 20}', "broken", '{"n": "x"}', '{"n": 30}']


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.troy"
    file.write_text(FLOW)
    return file


def taken(frame: "DataFrame") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"out": [], "small": [], "err": []}
    for row in frame.orderBy("position", "nth").collect():
        found[row["port"]].append(row["error"] or row["value"])
    return found


EXPECTED = {
    "out": ['{"n":20}', '{"n":30}'],
    "small": ['{"n": 1}'],
    "err": [
        "not JSON: unexpected character, expected a JSON value at column 1",
        "`>=` cannot be applied to a string and a whole number",
        "`<` cannot be applied to a string and a whole number",
    ],
}


def test_over_a_table(spark: "SparkSession", flow: Path) -> None:
    large = pipeline(flow, "large", args={"least": 10})
    given = spark.createDataFrame(list(enumerate(GIVEN)), "position long, value string")
    assert taken(large(given)) == EXPECTED
    assert taken(large(given.selectExpr("position", "cast(value AS binary) AS body"))) == EXPECTED


def test_over_a_stream(spark: "SparkSession", flow: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for position, value in enumerate(GIVEN):
        (given / f"{position}.json").write_text(json.dumps({"position": position, "value": value}))
    stream = spark.readStream.schema("position long, value string").option("maxFilesPerTrigger", 2).json(str(given))
    made = pipeline(flow, "large", args={"least": 10})(stream)
    writer = made.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "made"))
    query.awaitTermination()
    assert len([batch for batch in query.recentProgress if batch["numInputRows"]]) == 3
    assert taken(spark.read.parquet(str(tmp_path / "made"))) == EXPECTED


def test_a_column_that_is_not_clear(spark: "SparkSession", flow: Path) -> None:
    large = pipeline(flow, "large", args={"least": 10})
    frame = spark.createDataFrame([("{}", "{}", 1)], "a string, b string, n long")
    with pytest.raises(WalflowError, match="which column holds the events"):
        large(frame)
    with pytest.raises(WalflowError, match="there is no column c: there are a string, b string, n bigint"):
        pipeline(flow, "large", args={"least": 10}, column="c")(frame)
    with pytest.raises(WalflowError, match="column n is bigint"):
        pipeline(flow, "large", args={"least": 10}, column="n")(frame)
    with pytest.raises(WalflowError, match="has no input `late`: there is `in`"):
        pipeline(flow, "large", args={"least": 10}, column="a", port="late")(frame)


WINDOWS = """\
define pipeline counted
into out, err
pipeline
  define window second from tumbling with interval = 1_000_000_000 script event.at end;
  define window pair from tumbling with size = 2 end;
  select {"host": group[0], "window": window, "n": aggr::stats::count(), "last": aggr::win::last(event.id)}
  from in[second, pair] group by event.host into out;
end;
"""
COUNTED = [
    {"host": "a", "last": 1, "n": 2, "window": "second"},
    {"host": "a", "last": 3, "n": 2, "window": "second"},
    {"host": "a", "last": 3, "n": 4, "window": "pair"},
    {"host": "b", "last": 101, "n": 2, "window": "second"},
    {"host": "b", "last": 103, "n": 2, "window": "second"},
    {"host": "b", "last": 103, "n": 4, "window": "pair"},
]
FLUSHED = [
    {"host": "a", "last": 4, "n": 1, "window": "second"},
    {"host": "a", "last": 4, "n": 1, "window": "pair"},
    {"host": "b", "last": 104, "n": 1, "window": "second"},
    {"host": "b", "last": 104, "n": 1, "window": "pair"},
]


def test_windows_over_a_table(spark: "SparkSession", tmp_path: Path) -> None:
    """Two events of each host a second, five in all. The rows stand in any order; positions say which is theirs. What
    is open at the end is left out, and with `flush` it is closed."""
    file = tmp_path / "flow.troy"
    file.write_text(WINDOWS)
    events = [
        json.dumps({"id": number + first, "host": host, "at": number // 2 * 1_000_000_000})
        for number in range(5)
        for host, first in (("a", 0), ("b", 100))
    ]
    rows = [(position, 1_700_000_000_000_000_000 + position, value) for position, value in enumerate(events)]
    given = spark.createDataFrame(rows[::-1], "position long, ingest_ns long, value string").repartition(3)
    for flush, expected in ((False, COUNTED), (True, sorted([*COUNTED, *FLUSHED], key=lambda one: str(one["host"])))):
        made = pipeline(file, "counted", buckets=3, flush=flush)(given)
        found = [row["value"] for row in made.orderBy("position", "nth").collect()]
        assert sorted(map(json.loads, found), key=lambda one: str(one["host"])) == expected, "in order within a host"
