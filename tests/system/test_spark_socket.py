"""flows/spark/socket.troy with flows/jobs/socket_wordcount.py, as in Spark's quick example;
and the word that mends it."""

import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, Daemon, free_port, running
from tests.system.process import Process
from tests.waiting import PATIENCE, wait_until

FLOW = ROOT / "flows" / "spark" / "socket.troy"
JOB = ROOT / "flows" / "jobs" / "socket_wordcount.py"
QUIET = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 "
    "--conf spark.driver.bindAddress=127.0.0.1 pyspark-shell"
)
ROW = re.compile(r"^\|\s*(\S*)\s*\|\s*(\d+)\s*\|$")

pytestmark = pytest.mark.spark


class Wordcount(Process):
    """The job as a user starts it. `counts`: the table it printed last."""

    def __init__(self, job: Path, port: int, directory: Path, **environment: str) -> None:
        self.said: list[str] = []
        self.counts: Counter[str] = Counter()
        self._table: Counter[str] = Counter()
        spark = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": QUIET, "SPARK_LOCAL_IP": "127.0.0.1"}
        super().__init__(
            [sys.executable, job, "localhost", str(port)],
            cwd=directory,
            environment=spark | environment,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def until(self, expected: Counter[str]) -> None:
        wait_until(
            lambda: self.counts == expected or not self.alive(), lambda: (self.counts, expected, self.said[-40:])
        )
        assert self.counts == expected, self.said[-40:]

    def _closed(self) -> None:
        self._reader.join(PATIENCE)
        super()._closed()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in map(bytes.decode, self.process.stdout):
            self.said.append(line)
            if line.startswith("Batch: "):
                self._table = Counter()
            elif row := ROW.match(line):
                self._table[row[1]] = int(row[2])
            elif line == "\n":
                self.counts = self._table


@contextmanager
def counting(job: Path, port: int, directory: Path, **environment: str) -> Iterator[Wordcount]:
    wordcount = Wordcount(job, port, directory, **environment)
    try:
        yield wordcount
    finally:
        wordcount.kill()


def feed(daemon: Daemon, *words: str) -> Counter[str]:
    assert daemon.process.stdin is not None
    daemon.process.stdin.write("".join(f"{word} {word}\n" for word in words).encode())
    daemon.process.stdin.flush()
    return Counter([*words, *words])


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def flow(tmp_path: Path, port: int) -> Path:
    """The shipped one, on ports of its own."""
    text = FLOW.read_text()
    assert text.count("127.0.0.1:9999") == text.count("127.0.0.1:7700") == 1
    file = tmp_path / FLOW.name
    file.write_text(text.replace(":9999", f":{port}").replace(":7700", f":{free_port()}"))
    return file


def test_the_quick_example(flow: Path, port: int, tmp_path: Path) -> None:
    with running(flow, tmp_path, stdin=subprocess.PIPE) as daemon:
        expected = feed(daemon, *(["pear", "apple", "apple"] * 500))
        with counting(JOB, port, tmp_path) as wordcount:
            wordcount.until(expected)
            expected += feed(daemon, "plum", "pear")
            wordcount.until(expected)

            with socket.create_connection(("127.0.0.1", port), PATIENCE) as second:
                assert second.recv(1) == b""
            assert "there can be only one" in str(daemon.wait_for("socket reader refused")["reason"])
            expected += feed(daemon, "plum")
            wordcount.until(expected)
        daemon.wait_for("socket reader gone")
        assert daemon.terminate() == 0


def test_one_word_makes_it_exact(flow: Path, port: int, tmp_path: Path) -> None:
    """On the same port. The daemon is killed while Spark reads, and Spark goes on where it was."""
    text = JOB.read_text()
    assert text.count('format("socket")\n') == 0
    assert text.count('.format("socket")') == 1
    job = tmp_path / JOB.name
    job.write_text(text.replace('.format("socket")', '.format("walflow")'))

    with running(flow, tmp_path, stdin=subprocess.PIPE) as daemon:
        expected = feed(daemon, *(["pear", "apple", "apple"] * 500))
        daemon.wait_for("listening for a socket source")
        token = str(tmp_path / "socket_state" / "token")
        with counting(job, port, tmp_path, WALFLOW_TOKEN_FILE=token) as wordcount:
            wordcount.until(expected)
            daemon.kill()
            with running(flow, tmp_path, stdin=subprocess.PIPE) as again:
                expected += feed(again, *(["plum", "pear"] * 1000))
                wordcount.until(expected)
