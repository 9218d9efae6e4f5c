"""Filters of a batch read: they narrow what is read, and leave nothing out."""

import datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pyspark_walflow import wire
from pyspark_walflow.options import Options
from pyspark_walflow.pushdown import LEAST, MOST, Bounds, Narrowed, narrowed
from pyspark_walflow.reader import BatchReader
from pyspark_walflow.wire import FrameKind
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.impostor import HANG_UP, TOKEN, impostor
from tests.pyspark_walflow.lake import Lake, ids, numbered
from tests.pyspark_walflow.logs import INGEST_NS, Given
from tests.pyspark_walflow.queries import batch
from tests.pyspark_walflow.reads import options, positions


def test_filters_narrow_what_is_read(new_lake: NewLake) -> None:
    lake = new_lake(
        [Given([b"x" * 200_000] * 10, ingest_ns=INGEST_NS + second * 10**9) for second in range(10)]
    )  # each block is a stretch of its own
    base = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=INGEST_NS // 1000)

    def read(*filters: Filter, **more: str) -> tuple[int, int]:
        reader = BatchReader(options(lake, numPartitions="1", **more))
        assert reader.pushFilters([*filters]) == [*filters], "Spark looks at each row all the same"
        [one] = reader.partitions()
        found = positions(reader.read(one))
        assert found == list(range(one.first, one.end))
        return one.first, one.end

    at, when = ("position",), ("ingest_ts",)
    seconds = datetime.timedelta(seconds=1)
    assert read(GreaterThan(at, 10), LessThanOrEqual(at, 20)) == (11, 21)
    assert read(In(at, (40, 30, 35))) == (30, 41)
    assert read(EqualTo(at, 1000)) == (101, 101)
    assert read(EqualTo(at, 5), startingPosition="8") == (8, 8)
    assert read(GreaterThanOrEqual(when, base + 3 * seconds), LessThan(when, base + 5 * seconds)) == (31, 51)
    assert read(EqualTo(when, base + 3 * seconds), EqualTo(at, 32)) == (32, 33)
    assert read(GreaterThan(("ingest_ns",), INGEST_NS + 8 * 10**9)) == (91, 101)
    assert read(LessThan(when, base)) == (1, 1)
    assert read(Not(EqualTo(at, 5)), EqualTo(("value",), "x"), EqualTo(at, None), In(at, (1, "x"))) == (1, 101)
    assert read(LessThan(when, datetime.datetime(1999, 1, 1))) == (1, 101), "whose time zone is not known"


def test_a_daemon_that_does_not_know_times_has_all_of_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that is older than LOCATE."""
    unknown = wire.control(FrameKind.ERROR, {"code": "protocol", "message": "a frame of kind 14"})
    head = wire.control(FrameKind.OK, {"floor": 1, "next": 101, "end": 101, "bytes": 5})

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        return unknown + HANG_UP if kind == FrameKind.LOCATE else head

    monkeypatch.setenv("WALFLOW_TOKEN", TOKEN)
    with impostor(answer) as port:
        reader = BatchReader(
            Options.of({"port": str(port), "retrySeconds": "0", "numPartitions": "1"}, starting="earliest")
        )
        reader.pushFilters([GreaterThan(("ingest_ns",), 5)])
        [one] = reader.partitions()
    assert (one.first, one.end) == (1, 101)


def test_times_are_cut_off_to_microseconds() -> None:
    """As the column has them: an event of 1.9 µs has `ingest_ts` 1 µs."""
    when, at = ("ingest_ts",), datetime.datetime(1970, 1, 1, microsecond=1, tzinfo=datetime.UTC)
    for one, span in (
        (EqualTo(when, at), Bounds(1000, 2000)),
        (GreaterThan(when, at), Bounds(2000, MOST)),
        (GreaterThanOrEqual(when, at), Bounds(1000, MOST)),
        (LessThan(when, at), Bounds(LEAST, 1000)),
        (LessThanOrEqual(when, at), Bounds(LEAST, 2000)),
    ):
        assert narrowed([one]) == Narrowed(ingest_ns=span)


@pytest.mark.spark
def test_spark_pushes_filters_down_where_it_may(spark: SparkSession, lake: Lake) -> None:
    """Where it may not, a source with a `pushFilters` must still be readable."""
    lake.send(*numbered(100))
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    try:
        for allowed, tasks in (("true", 5), ("false", 100)):
            spark.conf.set(setting, allowed)
            frame = batch(spark, lake, numPartitions="100").where("position > 90 AND position <= 95")
            assert frame.rdd.getNumPartitions() == tasks
            assert sorted(ids(frame.collect())) == list(range(90, 95))
            today = batch(spark, lake).where("ingest_ts > current_timestamp() - interval 1 day")
            assert (today.count(), today.where("ingest_ts < timestamp'2000-01-01'").count()) == (100, 0)
    finally:
        spark.conf.set(setting, str(before))
