"""The floor: a Python source whose tasks have their rows in memory, in the same columns and batches as walflow's. It
has no daemon, no connection, no checksum and no copy, so what it takes is what Spark takes for any Python source."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.spark.lines import Lines
from pyspark_walflow.columns import Columns
from pyspark_walflow.reuse import settle
from pyspark_walflow.source import SCHEMA

FORMAT: Final = "bench_memory"
BATCH_BYTES: Final = 1 << 20  # of a record batch, as the daemon sends them
Offset = dict[str, int]


class Memory(DataSource):
    """`total` rows of `size` bytes, `rows` of them in a micro-batch, which has as many tasks as `partitions` says."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "MemoryReader":
        return MemoryReader(*self._numbers("total", "size", "partitions"))

    def streamReader(self, schema: StructType) -> "MemoryStreamReader":
        return MemoryStreamReader(*self._numbers("total", "size", "partitions", "rows"))

    def _numbers(self, *names: str) -> list[int]:
        return [int(self.options[name]) for name in names]


class Share(InputPartition):
    def __init__(self, rows: int, size: int) -> None:
        self.rows = rows
        self.size = size


class MemoryReader(DataSourceReader):
    def __init__(self, total: int, size: int, partitions: int) -> None:
        self._total = total
        self._size = size
        self._partitions = partitions

    def partitions(self) -> list[Share]:
        return _shares(self._total, self._size, self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class MemoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is a number of rows."""

    def __init__(self, total: int, size: int, partitions: int, rows: int) -> None:
        self._total = total
        self._size = size
        self._partitions = partitions
        self._rows = rows

    def initialOffset(self) -> Offset:
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """All is there."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {"rows": min(self._total, start["rows"] + self._rows)}

    def reportLatestOffset(self) -> Offset:
        return {"rows": self._total}

    def partitions(self, start: Offset, end: Offset) -> list[Share]:
        return _shares(end["rows"] - start["rows"], self._size, self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


def _shares(rows: int, size: int, count: int) -> list[Share]:
    edges = [rows * at // count for at in range(count + 1)]
    return [Share(high - low, size) for low, high in pairwise(edges)]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Share)
    batch, left = _batch(partition.size), partition.rows
    while left > 0:
        yield batch.slice(0, left)
        left -= batch.num_rows
    settle()


@cache
def _batch(size: int) -> pa.RecordBatch:
    """Once in the life of a worker."""
    count = BATCH_BYTES // size
    lines = b"".join(Lines(size).some(0, count)).decode().splitlines()
    arrays: list[pa.Array[pa.Scalar[Any]]] = [
        pa.array(np.arange(count)),
        pa.array(np.arange(count), pa.timestamp("us", "UTC")),
        pa.nulls(count, pa.string()),
        pa.array(lines, pa.string()),
    ]
    schema = Columns(binary=False, crc=None).schema
    made: pa.RecordBatch = pa.RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType]
    return made
