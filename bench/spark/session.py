"""One Spark session, and what its queries say of their batches."""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from demo.server import ROOT
from pyspark_walflow.reuse import QUICK_TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MASTER: Final = "local[2]"
HEAP: Final = "4g"  # the socket source keeps in it what it has not got round to
SAID: Final = "spark.log"


class Batch(NamedTuple):
    """`seconds`: triggerExecution, all of it. `adding`: addBatch, the part in which rows move. `looking`:
    latestOffset, in which walflow's waits for an event. `began`: of the epoch."""

    rows: int
    seconds: float
    adding: float
    looking: float
    began: float
    end_offset: str

    @property
    def ended(self) -> float:
        return self.began + self.seconds


@contextmanager
def session(workdir: Path, jars: str = "") -> Iterator["SparkSession"]:
    """`jars`: more of them, as `spark.jars` has them.
    What the JVM says on stderr goes to `spark.log` in the directory."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": HEAP,
        **QUICK_TASKS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.warehouse.dir": str(workdir / "warehouse"),
        "spark.local.dir": str(workdir / "local"),
    }
    if jars:
        settings["spark.jars"] = jars
    builder = SparkSession.builder.master(MASTER).appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stderr_to(workdir / SAID), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on sockets that it leaves to the collector
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def jvm_pid(spark: "SparkSession") -> int:
    jvm = spark.sparkContext._jvm  # there is no other way to it
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def batches(query: "StreamingQuery") -> list[Batch]:
    """Those with rows that are done, in order."""
    return [_batch(progress) for progress in query.recentProgress if progress.numInputRows]


@contextmanager
def scratch(workdir: Path) -> Iterator[Path]:
    """For the checkpoint and the files of one query: of its own,
    for one that was stopped may write for a moment more."""
    directory = Path(tempfile.mkdtemp(dir=workdir))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def rate(done: Sequence[Batch], *, adding: bool = False) -> float:
    """Rows a second."""
    return sum(batch.rows for batch in done) / sum(batch.adding if adding else batch.seconds for batch in done)


def _batch(progress: "StreamingQueryProgress") -> Batch:
    took = progress.durationMs
    return Batch(
        progress.numInputRows,
        took["triggerExecution"] / 1000,
        took["addBatch"] / 1000,
        took["latestOffset"] / 1000,
        datetime.fromisoformat(progress.timestamp).timestamp(),
        progress.sources[0].endOffset,
    )


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """What is started meanwhile keeps it."""
    sys.stderr.flush()
    ours = os.dup(2)
    with file.open("ab") as said:
        os.dup2(said.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
