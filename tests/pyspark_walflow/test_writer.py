"""writeStream.format("walflow") in a real Spark, to a real daemon: each row is in the file once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery

from tests.pyspark_walflow.bay import Bay
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.queries import failure, first_line, running, stream
from tests.system.process import Process

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
SMALL = '"chunk_size": 65536, "max_chunks": 4'


@pytest.fixture
def bay(tmp_path: Path) -> Iterator[Bay]:
    bay = Bay(tmp_path / "bay")
    bay.open_file()
    with bay:
        yield bay


def send(frame: DataFrame, lake: Lake, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("walflow").options(**lake.options)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def test_a_query_comes_back_and_goes_on_from_its_checkpoint(spark: SparkSession, bay: Bay, tmp_path: Path) -> None:
    frame = stream(spark, bay, maxRowsPerBatch="60", numPartitions="2").where("position % 2 = 1").select("value")
    bay.send(*numbered(100))
    with running(send(frame, bay, tmp_path / "checkpoint")) as query:
        query.processAllAvailable()
        assert sorted(bay.lines(50)) == sorted(numbered(100)[::2])
    bay.kill()
    bay.start()
    bay.send(*numbered(100, 100))
    with running(send(frame, bay, tmp_path / "checkpoint")) as query:
        query.processAllAvailable()
        assert sorted(bay.lines(100)) == sorted(numbered(200)[::2])
    anew = {"newCheckpoint": "accept", "startingPosition": "earliest", "maxRowsPerBatch": "60", "numPartitions": "2"}
    frame = stream(spark, bay, **anew).where("position % 2 = 1").select("value")
    with running(send(frame, bay, tmp_path / "another")) as query:  # a query never seen
        query.processAllAvailable()
        assert len(bay.lines(200)) == 200
    assert bay.staged() == []


def test_windows_are_published_as_they_grow(spark: SparkSession, bay: Bay, tmp_path: Path) -> None:
    frame = stream(spark, bay).groupBy().count()
    writer = frame.writeStream.format("walflow").options(**bay.options).outputMode("complete")
    bay.send(*numbered(10))
    with running(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
        query.processAllAvailable()
        assert bay.values(1) == [{"count": 10}]
        bay.send(*numbered(5))
        query.processAllAvailable()
        assert bay.values(2) == [{"count": 10}, {"count": 15}]


def test_a_batch_write_has_all_types(spark: SparkSession, bay: Bay) -> None:
    frame = spark.sql(
        """SELECT 1 i, 2L l, 1.5D d, 0.1F f, CAST(1.25 AS DECIMAL(20,2)) dec, true bo, 'é"' s, X'00ff' b,
        timestamp'2026-01-02 03:04:05.678901' ts, timestamp_ntz'2026-01-02 03:04:05' tn, date'2026-01-02' dt,
        array(1, null) a, map('x', 1, 'y', null) m, struct(1 AS p, array(struct(2 AS r)) AS s) st,
        interval '1' day iv, null nn, parse_json('{"a":[1,null]}') v, double('NaN') nan, time'12:34:56' tm"""
    )
    frame.union(frame).write.format("walflow").options(**bay.options).mode("append").save()
    expected = {
        "i": 1, "l": 2, "d": 1.5, "f": 0.1, "dec": 1.25, "bo": True, "s": 'é"', "b": "AP8=",
        "ts": "2026-01-02T03:04:05.678901Z", "tn": "2026-01-02T03:04:05.000000", "dt": "2026-01-02",
        "a": [1, None], "m": {"x": 1, "y": None}, "st": {"p": 1, "s": [{"r": 2}]},
        "iv": "PT86400S", "nn": None, "v": {"a": [1, None]}, "nan": "NaN", "tm": "12:34:56",
    }  # fmt: skip
    assert bay.values(2) == [expected, expected]
    (published,) = bay.said("published", 1)
    assert str(published["query"]).startswith("write-")
    with pytest.raises(AnalysisException) as error:
        frame.write.format("walflow").options(**bay.options).mode("overwrite").save()
    assert "cannot be overwritten" in first_line(error.value)


def test_a_task_fails_and_what_the_other_one_staged_is_never_published(
    spark: SparkSession, bay: Bay, tmp_path: Path
) -> None:
    flag = tmp_path / "fails"
    flag.touch()
    fails, staging = str(flag), str(bay.state / "staging")

    @udf("string")
    def checked(value):  # type: ignore[no-untyped-def]  # Spark reads meaning into hints
        if json.loads(value)["id"] == 99 and os.path.exists(fails):
            while not any(name.endswith(".50") for name in os.listdir(staging)):
                time.sleep(0.01)
            raise RuntimeError("injected")
        return value

    bay.send(*numbered(100))
    frame = stream(spark, bay, numPartitions="2").select(checked("value").alias("value"))
    with running(send(frame, bay, tmp_path / "checkpoint")) as query:
        with pytest.raises(Exception, match="injected"):
            query.processAllAvailable()
    assert [line["rows"] for line in bay.said("staged", 1)] == [50], "one task had staged its rows, the other had not"
    assert bay.said("published") == []
    flag.unlink()
    with running(send(frame, bay, tmp_path / "checkpoint")) as query:
        query.processAllAvailable()
        assert sorted(bay.lines(100)) == sorted(numbered(100))
    assert bay.batches("published", 1) == [0]
    assert bay.staged() in ([], [f"{bay.said('staged')[0]['stage']}.50"]), "Spark may know it, or not"


def test_the_daemon_is_killed_while_the_driver_publishes(spark: SparkSession, tmp_path: Path) -> None:
    """There is no file to write to, so the results fill their log, and PUBLISH waits for space in it."""
    bay = Bay(tmp_path / "bay", SMALL)
    events = [f'{{"id":{number},"x":"{"x" * 900}"}}' for number in range(300)]
    with bay:
        frame = stream(spark, bay, maxRowsPerBatch="150").select("value")
        bay.send(*events[:150])
        with running(send(frame, bay, tmp_path / "checkpoint")) as query:
            query.processAllAvailable()
        bay.commit(151, "spark", checkpoint=tmp_path / "checkpoint")
        bay.commit(151, "other")
        bay.send(*events[150:])
        with running(send(frame, bay, tmp_path / "checkpoint")) as query:
            assert "their log is full" in str(bay.daemon.wait_for("results wait")["reason"])
            bay.kill()
            bay.open_file()
            bay.start()
            query.processAllAvailable()
        (resumed,) = bay.said("publication resumed", 1)
        assert (resumed["batch"], resumed["rows"]) == (1, 150)
        assert 0 < int(str(resumed["done"])) < 150, "it was in the middle"
        assert bay.batches("published already", 1) == [1], "the driver had to ask again"
        assert sorted(bay.lines(300)) == sorted(events)


def test_the_driver_is_killed_between_its_commit_and_sparks(bay: Bay, tmp_path: Path) -> None:
    bay.send(*numbered(100))
    fate, checkpoint = tmp_path / "fate", tmp_path / "checkpoint"
    assert drive(bay, checkpoint, fate, kill_behind=1) == -signal.SIGKILL
    assert [path.name for path in (checkpoint / "commits").iterdir() if path.name.isdigit()] == ["0"]
    assert bay.batches("published", 2) == [0, 1]
    fate.unlink()
    assert drive(bay, checkpoint, fate) == 0
    assert bay.batches("published already", 1) == [1], "Spark asked for it again"
    assert bay.batches("published", 3) == [0, 1, 2]
    assert sorted(bay.lines(100)) == sorted(numbered(100))


def drive(bay: Bay, checkpoint: Path, fate: Path, kill_behind: int | None = None) -> int:
    script = ROOT / "tests/pyspark_walflow/killed_driver.py"
    arguments = [str(bay.port), str(bay.state / "token"), str(checkpoint), str(fate)]
    driver = Process(
        [sys.executable, script, *arguments],
        environment={"PYSPARK_PYTHON": sys.executable},
        cwd=fate.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if kill_behind is not None:
            fate.write_text(f"{kill_behind} {driver.pid}")
        return driver.process.wait(120)
    finally:
        driver.close()


def test_what_the_daemon_refuses_is_the_first_line_that_the_user_sees(
    spark: SparkSession, bay: Bay, lake: Lake, tmp_path: Path
) -> None:
    bay.send('"not json"', '{"a":1}')
    bad = stream(spark, bay).selectExpr("substr(value, 1, 7) AS value")
    with running(send(bad, bay, tmp_path / "one")) as query:
        assert "row 1 of a task is no event: not JSON" in failure(query)
    assert bay.said("published") == []
    lake.send('{"a":1}')
    with running(send(stream(spark, lake).select("value"), lake, tmp_path / "two")) as query:
        assert "nothing is linked to this connector's `out`" in failure(query)
