"""Spark's Python workers run many tasks."""

import gc
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_walflow.fetch import Range, fetch
from pyspark_walflow.options import Options
from pyspark_walflow.reuse import settle
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.reads import options, positions, wanted

MODULES = 10_000  # objects, at the least, of what a worker imports


def _read(asked: Options, range_: Range, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many events, and how many objects no collection looks at any more."""
    for _ in batches:
        events = len(positions(fetch(asked, range_, "")))
        yield pa.RecordBatch.from_pydict({"events": [events], "objects": [gc.get_freeze_count()]})  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.spark
def test_the_garbage_collection_behind_a_task_looks_at_no_module(spark: SparkSession, lake: Lake) -> None:
    lake.send(*numbered(10))
    read = partial(_read, options(lake), wanted(lake, 1, 11))
    [row] = spark.range(1).mapInArrow(read, "events long, objects long").collect()
    assert row["events"] == 10
    assert row["objects"] > MODULES


def test_no_other_process_is_touched() -> None:
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before
