"""All that is there, batch by batch into a sink: the same lines out of walflow's log and out of text files. Beside
them the floor: a Python source that has its rows in memory."""

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bench.spark.lake import Lake
from bench.spark.lines import SCHEMA, Data
from bench.spark.processes import cpu_seconds
from bench.spark.session import batches, jvm_pid, rate, scratch
from bench.systems import WrongResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Literal["walflow", "text files", "from memory"]
Sink = Literal["noop", "parquet"]

SOURCES: Final[tuple[Source, ...]] = ("walflow", "text files", "from memory")
SIZES: Final = (100, 1000)
ENDS_WITHIN: Final = 300  # seconds
LOOK: Final = 0.02
TASKS: Final = 2  # of the floor: walflow has as many for a batch of this size on two processors


@dataclass(frozen=True)
class Case:
    source: Source
    parsed: bool
    sink: Sink
    size: int  # bytes a line, its newline included

    @property
    def name(self) -> str:
        return f"{self.source}{' + from_json' if self.parsed else ''}, {self.sink}, {in_words(self.size)}"


def in_words(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size // 1000} KB"


CASES: Final = tuple(
    Case(source, parsed, sink, size)
    for size in SIZES
    for sink in ("noop", "parquet")
    for parsed in (False, True)
    for source in SOURCES
    if source != "from memory" or (sink == "noop" and not parsed)
)


@dataclass(frozen=True)
class Result:
    """Of all batches but the first. CPU: Spark's is the JVM's and its Python workers'."""

    rows_per_second: float
    rows_per_second_adding: float
    spark_cpu_s_per_million: float
    daemon_cpu_s_per_million: float | None
    batches: int


def consumers(rounds: int) -> list[str]:
    """As many as `Runs` takes of one daemon."""
    return [f"run{number}" for number in range(4 * rounds)]


class Runs:
    def __init__(
        self, spark: "SparkSession", workdir: Path, data: Mapping[int, Data], lakes: Mapping[int, Lake]
    ) -> None:
        self._spark = spark
        self._workdir = workdir
        self._data = data
        self._lakes = lakes
        self._jvm = jvm_pid(spark)
        self._consumers = {size: (f"run{number}" for number in itertools.count()) for size in lakes}

    def run(self, case: Case) -> Result:
        """Raises WrongResult."""
        data = self._data[case.size]
        frame = self._frame(case)
        os.sync()  # no case writes back the data of another one
        with scratch(self._workdir) as directory:
            query = (
                frame.writeStream.format(case.sink)
                .trigger(availableNow=True)
                .option("checkpointLocation", str(directory / "checkpoint"))
                .start(None if case.sink == "noop" else str(directory / "rows"))
            )
            while query.isActive and not batches(query):
                time.sleep(LOOK)
            before = self._cpu(case)
            if not query.awaitTermination(ENDS_WITHIN):
                query.stop()
                raise WrongResult(f"{case.name}: not done within {ENDS_WITHIN} s")
            after = self._cpu(case)
            done = batches(query)
            self._verify(case, sum(batch.rows for batch in done), directory / "rows")
        warm, millions = done[1:], (data.total - data.rows) / 1e6
        return Result(
            rate(warm),
            rate(warm, adding=True),
            (after[0] - before[0]) / millions,
            (after[1] - before[1]) / millions if case.source == "walflow" else None,
            len(warm),
        )

    def _frame(self, case: Case) -> "DataFrame":
        from pyspark.sql.functions import from_json

        data = self._data[case.size]
        if case.source == "walflow":
            options = self._lakes[case.size].options(next(self._consumers[case.size]))
            options |= {"maxRowsPerBatch": str(data.rows), "maxBytesPerBatch": str(2 * data.rows * data.size)}
            frame = self._spark.readStream.format("walflow").options(**options).load()
        elif case.source == "from memory":
            from bench.spark import memory

            self._spark.dataSource.register(memory.Memory)
            told = {"total": data.total, "size": data.size, "rows": data.rows, "partitions": TASKS}
            frame = self._spark.readStream.format(memory.FORMAT).options(**told).load()
        else:
            reader = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1)
            frame = reader.load(str(data.directory))
        return frame.select(from_json("value", SCHEMA).alias("event")).select("event.*") if case.parsed else frame

    def _cpu(self, case: Case) -> tuple[float, float]:
        return cpu_seconds(self._jvm), cpu_seconds(self._lakes[case.size].pid)

    def _verify(self, case: Case, came: int, rows: Path) -> None:
        data = self._data[case.size]
        if came != data.total:
            raise WrongResult(f"{case.name}: {data.total:,} rows were to come, {came:,} came")
        if case.sink == "noop":
            return
        summed, wanted = "sum(length(value))", data.total * (data.size - 1)
        if case.parsed:
            summed, wanted = "sum(id)", data.total * (data.total - 1) // 2
        found = self._spark.read.parquet(str(rows)).selectExpr("count(*) as rows", f"{summed} as sum").first()
        assert found is not None
        if (found.rows, found.sum) != (data.total, wanted):
            raise WrongResult(
                f"{case.name}: {found.rows:,} rows in parquet with {summed} {found.sum:,}, not {wanted:,}"
            )


def selected(only: str) -> Sequence[Case]:
    return [case for case in CASES if only in case.name]
