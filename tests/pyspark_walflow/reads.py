"""Reading without Spark."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from pyspark_walflow.fetch import Range
from pyspark_walflow.options import Options
from pyspark_walflow.wire import Right
from tests.pyspark_walflow.lake import Lake


def options(lake: Lake, **more: str) -> Options:
    return Options.of(lake.options | {"retrySeconds": "0"} | more)


def positions(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [cast(int, position) for batch in batches for position in batch["position"].to_pylist()]


def wanted(lake: Lake, first: int, end: int) -> Range:
    with lake.client() as client:
        log = client.log
    return Range(first, end, log, options(lake).key().ticket(Right.READ, log))
