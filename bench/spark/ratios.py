"""Pairs of which one is divided by the other: a pipeline by what Spark does itself, many groups by few, many partitions by few.
All over the same lines, as data with an end, into noop, by turns."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.spark import lines
from bench.spark.lake import Lake
from bench.spark.pipeline import MINE, PARTS, frames
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
FLOW: Final = """\
define pipeline windows
args groups, span
pipeline
  define window span from tumbling with interval = args.span script event.id * 1_000_000 end;
  select {"group": group[0], "n": aggr::stats::count(), "sum": aggr::stats::sum(event.amount)}
  from in[span] group by event.id % args.groups into out;
end;
"""


@dataclass(frozen=True)
class Ratio:
    """`good`, `aim`: what `mine` ÷ `other` should be."""

    name: str
    mine: str
    other: str
    good: float
    aim: float | None = None


TEN: Final = f"pipeline, windows of {FEW} groups"
RATIOS: Final = (
    Ratio("pipeline: where and target", MINE, PARTS, 1, 2),
    Ratio("pipeline: windows by group", TEN, f"from_json, groupBy(window), {FEW} groups", 0.3, 0.6),
    Ratio("pipeline: many groups", f"pipeline, windows of {MANY:,} groups", TEN, 0.5),
    *(
        Ratio(f"partitions: {most} for {least}", f"walflow, {most} partitions", f"walflow, {least} partitions", 0.95)
        for least, most in itertools.pairwise(PARTITIONS)
    ),
)


def selected(only: str) -> Sequence[Ratio]:
    return [ratio for ratio in RATIOS if only in ratio.name]


class Ratios:
    """`rows`: lines in all."""

    def __init__(self, spark: "SparkSession", workdir: Path, rows: int, chosen: Sequence[Ratio]) -> None:
        self._spark = spark
        self._workdir = workdir
        self._rows = rows // FILES * FILES
        self._chosen = chosen
        self._names = list(dict.fromkeys(name for ratio in chosen for name in (ratio.mine, ratio.other)))

    def run(self, rounds: int, warm: int, say: Callable[[str], None]) -> Mapping[str, Sequence[float]]:
        """Rows a second of each name, a round. Raises WrongResult."""
        self._workdir.mkdir()
        data = lines.write(self._workdir / "lines", SIZE, self._rows // FILES, FILES)
        found: dict[str, list[float]] = {name: [] for name in self._names}
        with ExitStack() as stack:
            made = self._frames(data, stack)
            for name in self._names:
                self._verify(name, made[name]())
            for number in range(1 - warm, rounds + 1):
                turn = number % len(self._names)
                for name in (*self._names[turn:], *self._names[:turn]):
                    began = time.perf_counter()
                    made[name]().write.format("noop").mode("overwrite").save()
                    rate = data.total / (time.perf_counter() - began)
                    say(
                        f"{f'round {number} of {rounds}' if number > 0 else 'warming up'}: {name}: {rate:,.0f} rows/s"
                    )
                    if number > 0:
                        found[name].append(rate)
        return found

    def _frames(self, data: lines.Data, stack: ExitStack) -> Mapping[str, "Callable[[], DataFrame]"]:
        made = dict(frames(self._spark, data, self._workdir / "where.troy"))
        if any("groups" in name for name in self._names):
            made |= self._windows(data)
        if any("partitions" in name for name in self._names):
            lake = stack.enter_context(Lake(self._workdir / "lake", data.total * SIZE, [CONSUMER]))
            lake.fill(data.files, data.total)
            made |= {f"walflow, {count} partitions": self._read(lake, count) for count in PARTITIONS}
        return made

    def _read(self, lake: Lake, partitions: int) -> "Callable[[], DataFrame]":
        options = lake.options(CONSUMER) | {"numPartitions": str(partitions)}
        return lambda: self._spark.read.format("walflow").options(**options).load()

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
