"""Spark's versions and what they write a log into, tables, Kafka's topics and our own results: each with its driver,
the daemon and both killed. Then table and log are equal by position and value, both ways; a topic may have an event
twice. docs/reference/spark.md has the table of it."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_walflow.older_reader import WRAPPER
from tests.broker.jars import absent
from tests.broker.kafka import kafka
from tests.pyspark_walflow.bay import Bay
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.sparks import PARQUET, RUN, Table, environment
from tests.pyspark_walflow.table_job import TOPIC

pytestmark = [pytest.mark.nightly, pytest.mark.spark]

ASK = ("4.0.5", "4.1.4")  # for Spark's wrapper, or an availableNow ends behind a batch that is done again
KILLS = ("driver", "daemon", "both", "driver", "both", "driver")


class Job:
    """One table, and the drivers that write it one after another."""

    def __init__(self, lake: Lake, version: str, table: Table, place: str) -> None:
        self._lake = lake
        self.told = ""  # on stderr, by what was run
        self._environment = environment(version)
        settings = {**dict(table.settings), "spark.jars": ",".join(map(str, table.jars()))}
        if table.format == "iceberg":
            settings["spark.sql.catalog.lakes.warehouse"], place = place, "lakes.rows"
        self._of_table = [table.format, place, str(lake.directory / "checkpoint")]
        self._settings = json.dumps(settings)

    def _command(self, what: str, options: dict[str, str]) -> list[str]:
        module = [sys.executable, "-m", "tests.pyspark_walflow.table_job", what]
        return [*module, *self._of_table, json.dumps(self._lake.options | options), self._settings]

    def run(self, what: str, **options: str) -> str:
        command = self._command(what, options)
        folder = self._lake.directory  # where Spark may leave what it likes
        done = subprocess.run(
            command, env=self._environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        self.told += done.stderr
        return done.stdout

    @contextmanager
    def copying(self) -> Iterator["Copying"]:
        command = self._command("copy", {"maxRowsPerBatch": "500", "retrySeconds": "30"})
        said = self._lake.directory / "copy.log"
        with said.open("ab") as log:
            child = subprocess.Popen(
                command,
                env=self._environment,
                cwd=self._lake.directory,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        copying = Copying(child, said)
        try:
            yield copying
        finally:
            copying.kill()


class Copying:
    """A driver with its JVM and its workers."""

    def __init__(self, child: "subprocess.Popen[str]", said: Path) -> None:
        self._child = child
        self._said = said

    def batches(self, count: int) -> None:
        """Waits for the end of so many."""
        assert self._child.stdout is not None
        for _ in range(count):
            line = self._child.stdout.readline()
            assert line, f"the driver ended with {self._child.wait()}: {self._said.read_text()[-4000:]}"

    def kill(self) -> None:
        with self._child:
            if self._child.poll() is None:
                os.killpg(self._child.pid, signal.SIGKILL)


def wrapped(table: Table) -> Table:
    """In a session whose availableNow goes on behind a batch that is done again."""
    return table._replace(settings=(*table.settings, (WRAPPER, "true")))


@contextmanager
def place_of(table: Table, lake: Path) -> Iterator[str]:
    """Where the events come to lie."""
    if table.format == "kafka":
        (lake / "broker").mkdir()
        with kafka(lake / "broker") as broker:
            broker.make_topic(TOPIC)
            yield broker.address
    else:
        yield str(lake / ("results/rows.json" if table.format == "walflow" else "table"))


@pytest.mark.skipif(absent() is not None, reason=str(absent()))
@pytest.mark.parametrize(
    ("version", "table"), RUN, ids=[f"{version or 'installed'}-{table.format}" for version, table in RUN]
)
@pytest.mark.timeout(900)
def test_a_table_has_each_position_whoever_is_killed(tmp_path: Path, version: str, table: Table) -> None:
    dice = random.Random(f"{version} {table.format}")
    lake = Bay(tmp_path / "lake")
    lake.open_file()
    with place_of(table, lake.directory) as place, lake:
        job, sent = Job(lake, version, wrapped(table) if version in ASK else table, place), 0
        for kill in KILLS:
            with job.copying() as copying:
                for _ in range(dice.randint(1, 3)):
                    lake.send(*numbered(700, sent))
                    sent += 700
                copying.batches(dice.randint(1, 2))
                if kill != "driver":
                    lake.kill()
                    lake.start()
                if kill == "daemon":
                    lake.send(*numbered(700, sent))
                    sent += 700
                    copying.batches(1)
        job.run("night")
        if table.format == "walflow":
            lake.lines(sent)
        found = json.loads(job.run("compare").splitlines()[-1])
    rows = found.pop("rows")
    assert found == {"log": sent, "positions": sent, "missing": 0, "other": 0}
    assert rows == sent or (rows > sent and not table.once)


@pytest.mark.parametrize("version", ASK)
@pytest.mark.parametrize("table", [PARQUET, wrapped(PARQUET)], ids=["alone", "wrapper"])
@pytest.mark.timeout(600)
def test_a_night_whose_last_batch_was_interrupted(tmp_path: Path, version: str, table: Table) -> None:
    """As by a driver's death: Spark has written down its end, and neither table nor Spark have it as done. An
    availableNow does that batch again, and reads what came since with the wrapper. Without it the next run does, and
    a line says so."""
    lake = Bay(tmp_path / "lake")
    lake.open_file()
    with lake:
        job = Job(lake, version, table, str(lake.directory / "table"))
        lake.send(*numbered(500))
        job.run("night")
        for done in ("checkpoint/commits", "table/_spark_metadata"):
            for file in ("0", ".0.crc"):
                (lake.directory / done / file).unlink()
        lake.send(*numbered(700, 500))
        job.run("night")
        found = json.loads(job.run("compare").splitlines()[-1])
        assert found["missing"] == (0 if table.settings else 700)
        assert job.told.count("does a batch of consumer 'spark' again") == (0 if table.settings else 1)
        job.run("night")
        found = json.loads(job.run("compare").splitlines()[-1])
    assert found == {"log": 1200, "rows": 1200, "positions": 1200, "missing": 0, "other": 0}
