"""A streaming query for as long as a test wants one."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pyspark_walflow.lake import Lake


def stream(spark: SparkSession, lake: Lake, **options: str) -> DataFrame:
    return spark.readStream.format("walflow").options(**(lake.options | options)).load()


def batch(spark: SparkSession, lake: Lake, **options: str) -> DataFrame:
    return spark.read.format("walflow").options(**(lake.options | options)).load()


@contextmanager
def into_memory(frame: DataFrame) -> Iterator[StreamingQuery]:
    with running(frame.writeStream.format("memory").queryName("q" + uuid.uuid4().hex).start()) as query:
        yield query


@contextmanager
def into_nothing(frame: DataFrame, checkpoint: Path) -> Iterator[StreamingQuery]:
    with running(frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()) as query:
        yield query


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def rows(query: StreamingQuery) -> list[Row]:
    """All that came until now, by position."""
    query.processAllAvailable()
    return SparkSession.active().sql(f"SELECT * FROM {query.name} ORDER BY position").collect()


def failure(query: StreamingQuery) -> str:
    """What the user sees first: the first line of the exception, behind Spark's own words."""
    try:
        query.awaitTermination(120)
    except StreamingQueryException as error:
        return first_line(error)
    raise AssertionError("the query did not fail")


def first_line(error: Exception) -> str:
    line = next(line for line in str(error).splitlines() if "walflow.error: " in line)
    assert "Traceback" not in str(error).partition("walflow.error: ")[0], "our line comes first"
    return line.partition("walflow.error: ")[2]
