"""Other versions of Spark than the installed one, and the jars of table formats, each fetched once into a directory
outside the tree."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.broker import jars

ROOT: Final = Path(__file__).parents[2]
PY4J: Final = "0.10.9.9"
DELTA: Final = "io.delta"
ICEBERG: Final = "org.apache.iceberg"
SPARK: Final = "org.apache.spark"


class Table(NamedTuple):
    """A format that Spark writes a stream into. `settings`: of the session. `artifact`: what Maven has of it.
    `once`: a batch that Spark repeats is there once."""

    format: str
    artifact: tuple[str, str, str] | None = None
    settings: tuple[tuple[str, str], ...] = ()
    once: bool = True

    def jars(self) -> list[Path]:
        if self.artifact is None:
            return []
        directory = jars.ROOT / f"{self.artifact[1]}-{self.artifact[2]}"
        if self.artifact[0] == SPARK:
            only = f"-DincludeArtifactIds={','.join(jars.LACKING)}"
        else:
            only = f"-DincludeGroupIds={DELTA},{ICEBERG},io.unitycatalog"
        return sorted(jars.fetched(directory, [self.artifact], only).iterdir())


PARQUET: Final = Table("parquet")
RESULTS: Final = Table("walflow")


def delta(spark: str, version: str) -> Table:
    settings = (
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    )
    return Table("delta", (DELTA, f"delta-spark_{spark}_2.13", version), settings)


def iceberg(spark: str, version: str) -> Table:
    settings = (
        ("spark.sql.catalog.lakes", "org.apache.iceberg.spark.SparkCatalog"),
        ("spark.sql.catalog.lakes.type", "hadoop"),
    )
    return Table("iceberg", (ICEBERG, f"iceberg-spark-runtime-{spark}_2.13", version), settings)


def kafka(version: str) -> Table:
    return Table("kafka", (SPARK, "spark-sql-kafka-0-10_2.13", version), once=False)


INSTALLED: Final = ""
RUN: Final = (
    ("4.0.5", PARQUET),
    ("4.0.5", delta("4.0", "4.4.0")),
    ("4.0.5", iceberg("4.0", "1.11.0")),
    ("4.0.5", kafka("4.0.0")),
    ("4.0.5", RESULTS),
    ("4.1.4", PARQUET),
    ("4.1.4", delta("4.1", "4.4.0")),
    ("4.1.4", iceberg("4.1", "1.12.0")),
    ("4.1.4", kafka("4.1.1")),
    ("4.1.4", RESULTS),
    ("4.2.1", PARQUET),
    ("4.2.1", delta("4.2", "4.4.0")),
    ("4.2.1", kafka("4.2.0")),
    ("4.2.1", RESULTS),
    (INSTALLED, PARQUET),
    (INSTALLED, kafka("4.2.0")),
    (INSTALLED, RESULTS),
)
"""What tests/system/test_spark_tables.py runs, with kills: a Spark of each release, and a table that it writes."""


def path_of(version: str) -> Path | None:
    """The directory of a pyspark's, to stand first in PYTHONPATH; None for the installed one."""
    if not version:
        return None
    directory = jars.ROOT / f"pyspark-{version}"
    if not (directory / "complete").exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
            str(directory),
        ]
        subprocess.run([*pip, f"pyspark=={version}", f"py4j=={PY4J}"], check=True)
        (directory / "complete").touch()
    return directory


def environment(version: str) -> dict[str, str]:
    """Of a driver on this Spark, with the interpreter that runs the tests."""
    found = path_of(version)
    first = [] if found is None else [str(found)]
    own = {"PYTHONPATH": os.pathsep.join([*first, str(ROOT)]), "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1"}
