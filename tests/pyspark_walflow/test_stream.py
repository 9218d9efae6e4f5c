"""readStream.format("walflow") in a real Spark, from a real daemon."""

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from pyspark_walflow import acks
from pyspark_walflow.progress import sources_of
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.lake import Lake, ids, numbered
from tests.pyspark_walflow.logs import INGEST_NS, Given, whole
from tests.pyspark_walflow.queries import batch, failure, into_memory, rows, running, stream
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.mark.test  # the one test of a JVM that `make test` runs
def test_events_become_rows_as_they_come(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(100))
    with into_memory(stream(spark, lake)) as query:
        assert ids(rows(query)) == list(range(100))
        lake.send(*numbered(50, 100))
        found = rows(query)
    assert ids(found) == list(range(150))
    assert [row.position for row in found] == list(range(1, 151))


def test_keys_times_and_bytes(spark: SparkSession, new_lake: NewLake) -> None:
    lake = new_lake([Given([b"a", b"b"], keys=["k", None]), Given([b"\xff\x00"], key="all"), whole(b"x\ny")])
    with into_memory(stream(spark, lake, value="binary")) as query:
        found = rows(query)
        spark.sql(f"SELECT unix_micros(ingest_ts) AS at FROM {query.name}").createOrReplaceTempView("times")
        assert {row["at"] for row in spark.table("times").collect()} == {INGEST_NS // 1000}
    assert [(row.key, bytes(row.value)) for row in found] == [
        ("k", b"a"),
        (None, b"b"),
        ("all", b"\xff\x00"),
        (None, b"x\ny"),
    ]


def test_only_the_columns_that_are_needed(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(10))
    assert batch(spark, lake, columns="value").columns == ["value"]
    assert sorted(ids(batch(spark, lake, columns="value").collect())) == list(range(10))
    assert batch(spark, lake, columns="ingest_ts").count() == 10
    with into_memory(stream(spark, lake, columns="position,value")) as query:
        assert ids(rows(query)) == list(range(10))


def test_sql_reads_it(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(10))
    options = ", ".join(f"{name} '{value}'" for name, value in lake.options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW lake USING walflow OPTIONS ({options})")
    spark.sql(f"CREATE TABLE lake_table USING walflow OPTIONS ({options}) COMMENT 'a log' TBLPROPERTIES ('a' = 'b')")
    for name in ("lake", "lake_table"):
        assert spark.sql(f"SELECT sum(from_json(value, 'id INT').id) AS sum FROM {name}").first() == (45,)
    with into_memory(spark.readStream.table("lake_table")) as query:
        assert ids(rows(query)) == list(range(10))
    spark.sql("DROP TABLE lake_table")
    stream(spark, lake).createOrReplaceTempView("events")
    with into_memory(spark.sql("SELECT position, value FROM STREAM(events) WHERE position % 2 = 0")) as query:
        assert ids(rows(query)) == [1, 3, 5, 7, 9]


def test_available_now_takes_what_was_there_and_no_more(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(250))
    seen: list[int] = []

    def take(frame: DataFrame, number: int) -> None:
        if number == 0:
            lake.send(*numbered(100, 250))
        seen.append(frame.count())

    frame = stream(spark, lake, maxRowsPerBatch="100")
    with running(frame.writeStream.foreachBatch(take).trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(120)
    assert seen == [100, 100, 50]


def test_a_batch_has_its_limits_and_the_rest_shows_as_lag(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(100))
    with into_memory(stream(spark, lake, maxRowsPerBatch="40")) as query:
        rows(query)
        batches = [json.loads(progress.json) for progress in query.recentProgress if progress.numInputRows]
    assert [one["numInputRows"] for one in batches] == [40, 40, 20]
    sources = [one["sources"][0] for one in batches]
    assert [one["latestOffset"]["position"] - one["endOffset"]["position"] for one in sources] == [60, 20, 0]
    assert [source.lag for one in batches for source in sources_of(one)] == [60, 20, 0]
    assert {source.name[:24] for one in batches for source in sources_of(one)} == {"walflow, consumer spark,"}


def test_a_batch_has_about_as_many_bytes_as_it_may(spark: SparkSession, new_lake: NewLake) -> None:
    lake = new_lake([Given([b"x" * 1000] * 10, stream=number) for number in range(10)])
    with into_memory(stream(spark, lake, maxBytesPerBatch="30k")) as query:
        rows(query)
        sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sum(sizes) == 100
    assert len(sizes) >= 3
    assert max(sizes) <= 40


@pytest.mark.parametrize(
    ("starting", "expected"), [("committed", [1, 2, 3]), ("earliest", [0, 1, 2, 3]), ("latest", [3]), ("3", [2, 3])]
)
def test_where_a_new_query_begins(spark: SparkSession, lake: Lake, starting: str, expected: list[int]) -> None:
    lake.send(*numbered(3))
    lake.commit(2, "spark")
    with into_memory(stream(spark, lake, startingPosition=starting, newCheckpoint="accept")) as query:
        rows(query)
        lake.send(*numbered(1, 3))
        assert ids(rows(query)) == expected


def _has_rows(query: StreamingQuery, count: int) -> bool:
    return len(rows(query)) >= count


def test_the_daemon_is_killed_under_a_query(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(100))
    with into_memory(stream(spark, lake)) as query:
        rows(query)
        for life in range(2):
            lake.kill()
            lake.start()
            lake.send(*numbered(100, 100 + life * 100))
            # while its daemon is away, the query has nothing new, and it asks again after a moment
            wait_until(partial(_has_rows, query, 200 + life * 100))
            assert ids(rows(query)) == list(range(200 + life * 100))


def test_a_query_goes_on_where_its_checkpoint_is(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def start(trigger: dict[str, Any]) -> None:
        frame = stream(spark, lake, maxRowsPerBatch="70")
        writer = frame.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
        with running(writer.trigger(**trigger).start()) as query:
            query.processAllAvailable()

    lake.send(*numbered(200))
    start({"processingTime": "0 seconds"})
    lake.send(*numbered(200, 200))
    lake.kill()
    lake.start()
    start({"availableNow": True})
    lake.send(*numbered(100, 400))
    start({"processingTime": "0 seconds"})
    assert sorted(ids(spark.read.parquet(table).collect())) == list(range(500))


def test_an_older_copy_of_a_checkpoint_goes_on_with_what_is_kept(
    spark: SparkSession, new_lake: NewLake, tmp_path: Path
) -> None:
    """Its table was restored from the backup of that day, too."""
    lake = new_lake((), '"retain": "1h"')
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    def run() -> None:
        writer = stream(spark, lake).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        with running(writer.option("path", str(table)).trigger(availableNow=True).start()) as query:
            query.processAllAvailable()

    lake.send(*numbered(50))
    run()
    backup = {one: shutil.copytree(one, tmp_path / f"{one.name} of before") for one in (table, checkpoint)}
    lake.send(*numbered(50, 50))
    run()
    lake.commit(lake.head()["next"], "other")
    assert lake.head()["committed"] == 101
    for one, copy in backup.items():
        shutil.rmtree(one)
        copy.rename(one)
    lake.send(*numbered(10, 100))
    run()
    assert sorted(ids(spark.read.parquet(str(table)).collect())) == list(range(110))


def test_a_query_begins_at_a_time(spark: SparkSession, new_lake: NewLake) -> None:
    second, start = 10**9, 1_700_000_000 * 10**9
    lake = new_lake([Given([event.encode()], ingest_ns=start + n * second) for n, event in enumerate(numbered(10))])
    since = {"startingTimestamp": "2023-11-14T22:13:24Z"}
    assert ids(batch(spark, lake, **since).collect()) == [4, 5, 6, 7, 8, 9]
    assert ids(batch(spark, lake, **since, endingTimestamp="1700000006000").collect()) == [4, 5]
    with into_memory(stream(spark, lake, **since)) as query:
        assert ids(rows(query)) == [4, 5, 6, 7, 8, 9]


def test_a_batch_that_was_begun_comes_again_just_so(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    taken: list[tuple[int, list[int]]] = []

    def take(frame: DataFrame, number: int) -> None:
        taken.append((number, sorted(ids(frame.collect()))))
        if len(taken) == 2:
            raise RuntimeError("between output and commit")

    def run() -> None:
        frame = stream(spark, lake, maxRowsPerBatch="60")
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        with running(writer.trigger(availableNow=True).start()) as query:
            query.awaitTermination(120)

    lake.send(*numbered(150))
    with pytest.raises(Exception, match="between output and commit"):
        run()
    lake.send(*numbered(10, 150))
    run()
    assert lake.head()["committed"] == 161, "the last batch too"
    assert taken[1] == taken[2] == (1, list(range(60, 120)))
    assert [number for number, _ in taken] == [0, 1, 1, 2]
    assert taken[3][1] == list(range(120, 160))


def test_spark_commits_and_the_log_lets_go(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(100))
    with into_memory(stream(spark, lake)) as query:
        rows(query)
        assert lake.head()["committed"] == 1, "Spark says so with the next batch only"
        lake.send(*numbered(1, 100))
        rows(query)
        assert lake.head()["committed"] == 101
    assert lake.head("other") == {"floor": 1, "next": 102, "committed": 1}


def test_the_listener_commits_at_once(spark: SparkSession, lake: Lake, new_lake: NewLake) -> None:
    quiet = new_lake()
    for one in (lake, quiet):
        one.send(*numbered(100))
    listener = acks.attach(spark, **lake.options)
    try:
        frames = stream(spark, lake, consumer="other"), stream(spark, quiet)
        with into_memory(frames[0]) as query, into_memory(frames[1]) as elsewhere:
            rows(query)
            rows(elsewhere)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        assert lake.head("other")["committed"] == 101
        assert lake.head("spark")["committed"] == 1
        assert quiet.head("spark")["committed"] == 1, "another daemon's log is not its business"
    finally:
        spark.streams.removeListener(listener)
        listener.close()


def test_a_query_that_reads_one_consumer_twice_is_refused_and_gives_it_back(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(10))
    with into_memory(stream(spark, lake).union(stream(spark, lake))) as query:
        said = failure(query)
    assert "A consumer is read once: a second query, or a second read of the stream within one query" in said
    with into_memory(stream(spark, lake).union(stream(spark, lake, consumer="other"))) as query:
        assert sorted(ids(rows(query))) == sorted([*range(10), *range(10)])


def test_of_two_daemons_one_that_is_away_holds_up_no_other(spark: SparkSession, new_lake: NewLake) -> None:
    one, other = new_lake(), new_lake()
    one.send(*numbered(10))
    other.send(*numbered(10, 100))

    def expect(query: StreamingQuery, *numbers: int) -> None:
        wait_until(lambda: sorted(ids(rows(query))) == sorted(numbers), "rows are missing")

    def away(query: StreamingQuery) -> list[bool]:
        progress = query.lastProgress
        assert progress is not None
        return ["no walflow listens at" in source.away for source in sources_of(json.loads(progress.json))]

    with into_memory(stream(spark, one).union(stream(spark, other))) as query:
        expect(query, *range(10), *range(100, 110))
        other.kill()
        one.send(*numbered(10, 10))
        expect(query, *range(20), *range(100, 110))
        wait_until(lambda: away(query) == [False, True], "the progress does not say who is away")
        other.start()
        other.send(*numbered(10, 110))
        expect(query, *range(20), *range(100, 120))


def test_a_new_checkpoint_with_the_output_of_an_old_one_loses_nothing(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Spark's file sink leaves out batch numbers that its directory has had, and they begin with 0 again."""

    def start(checkpoint: str, table: str, **options: str) -> StreamingQuery:
        writer = stream(spark, lake, maxRowsPerBatch="10", **options).writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / table)).option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).start()

    def written(*tables: str) -> list[int]:
        return sorted(
            number for table in tables for number in ids(spark.read.parquet(str(tmp_path / table)).collect())
        )

    lake.send(*numbered(30))
    with running(start("first", "table")) as query:
        assert query.awaitTermination(120)
    lake.send(*numbered(30, 30))
    with running(start("second", "table")) as query:
        said = failure(query)
    assert "consumer 'spark' belongs to another checkpoint, which committed all below 31 " in said
    assert 'option("newCheckpoint", "accept")' in said
    with running(start("third", "new", newCheckpoint="accept")) as query:
        assert query.awaitTermination(120)
    assert set(written("table", "new")) == set(range(60))
    assert written("new") == list(range(30, 60)), "from what was committed on"


def test_state_in_pandas(spark: SparkSession, lake: Lake) -> None:
    """What `walflow[spark]` installs is enough for it."""

    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._count = handle.getValueState("count", "count long")

        def handleInputRows(
            self, key: tuple[object, ...], rows: Iterator[pd.DataFrame], timerValues: object
        ) -> Iterator[pd.DataFrame]:
            (known,) = self._count.get() or (0,)
            count = known + sum(map(len, rows))
            self._count.update((count,))
            yield pd.DataFrame({"rest": [key[0]], "count": [count]})

        def close(self) -> None: ...

    lake.send(*numbered(9))
    provider = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    try:
        groups = stream(spark, lake).selectExpr("position % 3 AS rest").groupBy("rest")
        frame = groups.transformWithStateInPandas(Count(), "rest long, count long", "Update", "None")
        query = frame.writeStream.format("memory").outputMode("update").queryName("states").start()
        with running(query):
            query.processAllAvailable()
            assert {tuple(row) for row in spark.table("states").collect()} == {(0, 3), (1, 3), (2, 3)}
    finally:
        spark.conf.unset(provider)
