"""Spark's socket source: how many lines a second it bears, found by doubling."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.spark.lines import Lines
from bench.spark.session import batches, scratch
from bench.systems import WrongResult
from demo.server import PATIENCE, free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST: Final = 5_000  # lines a second
HIGHEST: Final = 1_280_000
TRIES: Final = 2  # of a rate, before it counts as too high
GRACE: Final = 2.0  # seconds after the last line until its batch is done
TICK: Final = 0.01
SIZE: Final = 100
CYCLE: Final = 100_000  # different lines


@dataclass(frozen=True)
class Try:
    """`partitions`: None for the source's default. `sent_at`: lines a second that really went out."""

    partitions: int | None
    rate: int
    sent_at: float
    sent: int
    processed: int
    largest_batch: int

    @property
    def kept_up(self) -> bool:
        return self.processed >= self.sent


def doubled(attempt: Callable[[int], Try], first: int = FIRST) -> Iterator[Try]:
    """Every try, up to the first rate that fails TRIES times."""
    rate, failed = first, 0
    while failed < TRIES and rate <= HIGHEST:
        tried = attempt(rate)
        yield tried
        if tried.kept_up:
            rate, failed = rate * 2, 0
        else:
            failed += 1


class Sockets:
    def __init__(self, spark: "SparkSession", workdir: Path, seconds: float) -> None:
        self._spark = spark
        self._workdir = workdir
        self._seconds = seconds
        self._lines = b"".join(Lines(SIZE).some(0, CYCLE))

    def attempt(self, partitions: int | None, rate: int) -> Try:
        """One query from its start: what is sent for some seconds must be processed soon after."""
        with self._sender(rate) as sender, scratch(self._workdir) as directory:
            reader = self._spark.readStream.format("socket").option("host", "127.0.0.1").option("port", sender.port)
            if partitions is not None:
                reader = reader.option("numPartitions", partitions)
            query = reader.load().writeStream.format("noop").option("checkpointLocation", str(directory)).start()
            try:
                sender.wait()
                deadline = time.monotonic() + GRACE
                while sum(batch.rows for batch in batches(query)) < sender.sent and time.monotonic() < deadline:
                    time.sleep(0.05)
                done = batches(query)
            finally:
                query.stop()
        if sender.failed is not None:
            raise WrongResult(f"the socket source: {sender.failed}")
        processed, largest = sum(batch.rows for batch in done), max((batch.rows for batch in done), default=0)
        return Try(partitions, rate, sender.sent / sender.took, sender.sent, processed, largest)

    @contextmanager
    def _sender(self, rate: int) -> Iterator["Sender"]:
        sender = Sender(self._lines, rate, self._seconds)
        sender.start()
        try:
            yield sender
        finally:
            sender.end()


class Sender(threading.Thread):
    """One reader, lines at a pace; then the connection stays open: at its end the source would."""

    def __init__(self, lines: bytes, rate: int, seconds: float) -> None:
        super().__init__(name="sender")
        self.port = free_port()
        self.sent = 0
        self.took = 0.0
        self.failed: OSError | None = None
        self._lines = lines
        self._rate = rate
        self._seconds = seconds
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.settimeout(PATIENCE)
        self._sent_all = threading.Event()
        self._over = threading.Event()

    def wait(self) -> None:
        self._sent_all.wait()

    def end(self) -> None:
        self._over.set()
        self.join()
        self._listener.close()

    def run(self) -> None:
        try:
            sock, _ = self._listener.accept()
            with sock:
                self._send(sock)
                self._sent_all.set()
                self._over.wait()
        except OSError as error:
            self.failed = error
        finally:
            self._sent_all.set()

    def _send(self, sock: socket.socket) -> None:
        began = time.monotonic()
        total = round(self._rate * self._seconds)
        while self.sent < total and not self._over.is_set():
            self.took = time.monotonic() - began
            due = min(total, round(self._rate * self.took))
            while self.sent < due:
                first = self.sent % CYCLE
                count = min(due - self.sent, CYCLE - first)
                sock.sendall(self._lines[first * SIZE : (first + count) * SIZE])
                self.sent += count
            time.sleep(TICK)
        self.took = time.monotonic() - began
