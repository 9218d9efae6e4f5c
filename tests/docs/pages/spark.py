"""Parts of docs/reference/spark.md: options, Kafka's words, and which Spark writes which table."""

from importlib.metadata import version
from typing import Final

from pyspark_walflow import kafka, options
from tests.docs.pages.tables import with_table
from tests.pyspark_walflow.sparks import INSTALLED, RUN, Table

NONE: Final = "none was released for it"


def page(present: str) -> str:
    made = with_table(present, "options", [options.table()])
    return with_table(with_table(made, "kafka", [kafka.tables()]), "sinks", [sinks()])


def sinks() -> str:
    """What nightly runs, so what may be promised."""
    found = {(_release(spark), table.format): (spark, table) for spark, table in RUN}
    releases = sorted({release for release, _ in found})
    formats = list(dict.fromkeys(table.format for _, table in RUN))
    lines = [f"| Spark | {' | '.join(formats)} |", "|---" * (len(formats) + 1) + "|"]
    for release in releases:
        cells: list[str] = []
        for name in formats:
            one = found.get((release, name))
            cells.append(NONE if one is None else _cell(one[1]))
        (exact,) = {spark for spark, _ in RUN if _release(spark) == release}
        lines.append(f"| {exact or version('pyspark')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(table: Table) -> str:
    named = "yes" if table.artifact is None else f"`{table.artifact[1]}:{table.artifact[2]}`"
    return named if table.once else f"{named}, at least once"


def _release(spark: str) -> str:
    """4.1 of 4.1.4."""
    return ".".join((spark if spark != INSTALLED else version("pyspark")).split(".")[:2])
