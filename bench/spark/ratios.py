"""Pairs of which one is divided by the other: a pipeline by what Spark does itself, many groups by few, many
partitions by few. All over the same lines, as data with an end, into noop, by turns."""

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.spark import kafka, lines
from bench.spark.lake import Lake
from bench.spark.pipeline import MINE, PARTS, frames
from bench.spark.processes import cpu_seconds
from bench.spark.ratio import Measured, Ratio
from bench.spark.session import batches, rate, scratch
from bench.systems import WrongResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZE: Final = 100  # bytes of a line
FILES: Final = 2
WINDOWS: Final = 20  # of each group, in all
FEW: Final = 10
MANY: Final = 10_000
PARTITIONS: Final = (2, 8, 32)
CONSUMER: Final = "ratio"
ENDS_WITHIN: Final = 600  # seconds, a stream
FLOW: Final = """\
define pipeline windows
args groups, span
pipeline
  define window span from tumbling with interval = args.span script event.id * 1_000_000 end;
  select {"group": group[0], "n": aggr::stats::count(), "sum": aggr::stats::sum(event.amount)}
  from in[span] group by event.id % args.groups into out;
end;
"""


TEN: Final = f"pipeline, windows of {FEW} groups"
RATIOS: Final = (
    Ratio("pipeline: where and target", MINE, PARTS, 1, 2),
    Ratio("pipeline: windows by group", TEN, f"from_json, groupBy(window), {FEW} groups", 0.3, 0.6),
    Ratio("pipeline: many groups", f"pipeline, windows of {MANY:,} groups", TEN, 0.5),
    *(
        Ratio(
            f"partitions: {most} for {least}{told}",
            f"{source}, {most} partitions",
            f"{source}, {least} partitions",
            good,
        )
        for source, told, good in (("walflow", "", 0.95), ("from memory", ", the floor", None))
        for least, most in itertools.pairwise(PARTITIONS)
    ),
)


def selected(only: str, *, beside_kafka: bool = False) -> Sequence[Ratio]:
    """Those beside Kafka only where they are asked for: they need a broker, which Maven fetches."""
    wanted = beside_kafka or "kafka" in only
    return [ratio for ratio in (*RATIOS, *(kafka.RATIOS if wanted else ())) if only in ratio.name]


class Ratios:
    """`rows`: lines in all."""

    def __init__(self, spark: "SparkSession", workdir: Path, rows: int, chosen: Sequence[Ratio]) -> None:
        self._spark = spark
        self._workdir = workdir
        self._rows = rows // FILES * FILES
        self._chosen = chosen
        self._names = list(dict.fromkeys(name for ratio in chosen for name in (ratio.mine, ratio.other)))

    def run(self, rounds: int, warm: int, say: Callable[[str], None]) -> Mapping[str, Sequence[Measured]]:
        """Of each name, a round. Raises WrongResult."""
        self._workdir.mkdir()
        data = lines.write(self._workdir / "lines", SIZE, self._rows // FILES, FILES)
        found: dict[str, list[Measured]] = {name: [] for name in self._names}
        with ExitStack() as stack:
            made = self._frames(data, stack, rounds + warm)
            for name in self._names:
                if "readStream" not in name:
                    self._verify(name, made[name]())
            for number in range(1 - warm, rounds + 1):
                turn = number % len(self._names)
                for name in (*self._names[turn:], *self._names[:turn]):
                    before = cpu_seconds(os.getpid())
                    rows_per_second = self._measure(name, made[name]())
                    cpu = (cpu_seconds(os.getpid()) - before) / self._rows * 1e6
                    measured = Measured(rows_per_second, cpu)
                    say(
                        f"{f'round {number} of {rounds}' if number > 0 else 'warming up'}: {name}: "
                        f"{rows_per_second:,.0f} rows/s"
                    )
                    if number > 0:
                        found[name].append(measured)
        return found

    def _measure(self, name: str, frame: "DataFrame") -> float:
        """Rows a second; of a stream those of all batches but the first. Raises WrongResult."""
        if not frame.isStreaming:
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            return self._rows / (time.perf_counter() - began)
        with scratch(self._workdir) as checkpoint:
            writer = frame.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(checkpoint)).start()
            try:
                ended = query.awaitTermination(ENDS_WITHIN)
            finally:
                query.stop()
        done = batches(query)
        came = sum(batch.rows for batch in done)
        if not ended or came != self._rows:
            raise WrongResult(f"{name}: {self._rows:,} rows were to come, {came:,} came")
        return rate(done[1:])

    def _frames(self, data: lines.Data, stack: ExitStack, runs: int) -> Mapping[str, "Callable[[], DataFrame]"]:
        made = dict(frames(self._spark, data, self._workdir / "where.troy"))
        if any("groups" in name for name in self._names):
            made |= self._windows(data)
        if any("partitions" in name for name in self._names):
            lake = stack.enter_context(Lake(self._workdir / "lake", data.total * SIZE, [CONSUMER]))
            lake.fill(data.files, data.total)
            made |= {f"walflow, {count} partitions": self._read(lake, count) for count in PARTITIONS}
            made |= {f"from memory, {count} partitions": self._from_memory(count) for count in PARTITIONS}
        if any("kafka" in name for name in self._names):
            consumers = [f"{CONSUMER}{number}" for number in range(runs + 1)]
            lake = stack.enter_context(Lake(self._workdir / "beside", data.total * SIZE, consumers))
            lake.fill(data.files, data.total)
            made |= kafka.frames(self._spark, data, lake, consumers, self._workdir / "broker", stack)
        return made

    def _read(self, lake: Lake, partitions: int) -> "Callable[[], DataFrame]":
        options = lake.options(CONSUMER) | {"numPartitions": str(partitions)}
        return lambda: self._spark.read.format("walflow").options(**options).load()

    def _from_memory(self, partitions: int) -> "Callable[[], DataFrame]":
        from bench.spark import memory

        self._spark.dataSource.register(memory.Memory)
        told = {"total": self._rows, "size": SIZE, "partitions": partitions}
        return lambda: self._spark.read.format(memory.FORMAT).options(**told).load()

    def _windows(self, data: lines.Data) -> Mapping[str, "Callable[[], DataFrame]"]:
        from pyspark.sql import functions as sql

        from pyspark_walflow import pipeline

        flow = self._workdir / "windows.troy"
        flow.write_text(FLOW)
        milliseconds = data.total // WINDOWS  # an event each

        def text() -> "DataFrame":
            return self._spark.read.text(str(data.directory))

        def mine(groups: int) -> "Callable[[], DataFrame]":
            counted = pipeline(flow, "windows", {"groups": groups, "span": milliseconds * 1_000_000}, flush=True)
            return lambda: counted(text())

        def parsed() -> "DataFrame":
            rows = text().select(sql.from_json("value", lines.SCHEMA).alias("e"))
            rows = rows.select(
                sql.timestamp_millis("e.id").alias("at"), (sql.col("e.id") % FEW).alias("g"), "e.amount"
            )
            counted = rows.groupBy(sql.window("at", f"{milliseconds} milliseconds"), "g")
            return counted.agg(sql.count("amount").alias("n"), sql.sum("amount").alias("sum"))

        return {
            TEN: mine(FEW),
            f"pipeline, windows of {MANY:,} groups": mine(MANY),
            f"from_json, groupBy(window), {FEW} groups": parsed,
        }

    def _verify(self, name: str, frame: "DataFrame") -> None:
        """All events are in what is measured. A filter passes about half."""
        wanted, came = self._rows, 0
        if "groups" in name:
            number = "cast(get_json_object(value, '$.n') as long)" if "pipeline" in name else "n"
            row = frame.selectExpr(f"sum({number}) as n").first()
            came = int(row["n"] or 0) if row is not None else 0
        elif name in (MINE, PARTS):
            came = frame.where("port = 'out'").count() if name == MINE else frame.count()
            wanted = came if self._rows // 3 < came < self._rows * 2 // 3 else -1
        else:
            came = frame.count()
        if came != wanted:
            raise WrongResult(f"{name}: {wanted:,} rows were to be in it, {came:,} are")
