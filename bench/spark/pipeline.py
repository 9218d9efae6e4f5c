"""`python -m bench.spark.pipeline`: a pipeline with a `where` and a target, and the same by Spark's own `from_json`,
filter and select, over the same text files into noop; by turns, round after round."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bench.spark import lines
from bench.spark.session import MASTER, session
from demo.server import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORK: Final = ROOT / "bench" / ".work"
FILES: Final = 2
MINE: Final = "pipeline"
PARTS: Final = "from_json, filter, select of two columns"
FLOW: Final = """\
define pipeline large
pipeline
  select {"user": event.user, "amount": event.amount} from in where event.amount >= 50000.0 into out;
end;
"""


def frames(spark: "SparkSession", data: lines.Data, flow: Path) -> dict[str, Callable[[], "DataFrame"]]:
    from pyspark.sql import functions as sql

    from pyspark_walflow import pipeline

    flow.write_text(FLOW)
    large = pipeline(flow, "large")

    def text() -> "DataFrame":
        return spark.read.text(str(data.directory))

    def parsed() -> "DataFrame":
        rows = text().select(sql.from_json("value", lines.SCHEMA).alias("e"))
        return rows.where("e.amount >= 50000.0")

    return {
        "text files alone": text,
        PARTS: lambda: parsed().select("e.user", "e.amount"),
        "from_json, filter, to_json of two fields": lambda: parsed().selectExpr("to_json(struct(e.user, e.amount))"),
        MINE: lambda: large(text()),
    }


def main(
    rounds: Annotated[int, typer.Option(help="After one that warms up.")] = 5,
    rows: Annotated[int, typer.Option(help="Lines in all.")] = 2_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a line.")] = 100,
) -> None:
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        workdir = Path(folder)
        data = lines.write(workdir / "lines", size, rows // FILES, FILES)
        with session(workdir) as spark:
            made = frames(spark, data, workdir / "flow.troy")
            count = {name: frame().where("port = 'out'").count() for name, frame in made.items() if name == MINE}
            assert count[MINE] == made[PARTS]().count(), "both find the same rows"
            rates: dict[str, list[float]] = {name: [] for name in made}
            for turn in range(rounds + 1):
                for name, frame in made.items():
                    begin = time.perf_counter()
                    frame().write.format("noop").mode("overwrite").save()
                    if turn:
                        rates[name].append(data.total / (time.perf_counter() - begin))
    print(
        f"{data.total:,} lines of {size} bytes, {FILES} files, {MASTER}, noop; medians of {rounds} rounds, by turns\n"
    )
    print("| | rows/s | min-max | ÷ from_json, filter, select |\n|---|---:|---:|---:|")
    for name, found in rates.items():
        ratio = median(mine / other for mine, other in zip(found, rates[PARTS], strict=True))
        print(f"| {name} | {median(found):,.0f} | {min(found):,.0f}-{max(found):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    typer.run(main)
