"""From an event's way into the daemon's socket to the end of the batch that has it in the sink, and what a batch
costs that has next to nothing in it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from bench.spark.lake import Lake
from bench.spark.lines import Lines
from bench.spark.session import Batch, batches, scratch
from bench.spark.throughput import Sink
from bench.systems import WrongResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RATE: Final = 1_000  # events a second
SIZE: Final = 100
SINKS: Final[tuple[Sink, ...]] = ("noop", "parquet")
WARM: Final = 5  # batches that do not count
ALONE: Final = 20  # events one by one, each when the last is in the sink
WARM_SECONDS: Final = 2.0
TICK: Final = 0.001
LOOK: Final = 0.005
DONE_WITHIN: Final = 60.0

Send = Callable[[bytes], None]


@dataclass(frozen=True)
class Result:
    """Milliseconds. `batch`: of triggerExecution without latestOffset. `floor`: of Spark's own source with one row a
    batch; `alone`: one event at a time through walflow; the others at RATE."""

    sink: Sink
    floor_batch: float
    alone: float
    alone_batch: float
    p50: float
    p99: float
    highest: float
    batch: float
    rows_a_batch: float
    events: int


class Latency:
    def __init__(self, spark: "SparkSession", workdir: Path, lake: Lake, seconds: float) -> None:
        self._spark = spark
        self._workdir = workdir
        self._lake = lake
        self._seconds = seconds
        self._lines = Lines(SIZE)
        self._sent: list[float] = []  # when, of the epoch; of position 1 first

    def measure(self, sink: Sink) -> Result:
        """Raises WrongResult."""
        floor = self._floor(sink)
        options = self._lake.options(sink) | {"startingPosition": str(len(self._sent) + 1)}
        events = self._spark.readStream.format("walflow").options(**options).load()
        with self._running(events, sink) as query, self._lake.connect() as sock:
            for _ in range(WARM + ALONE):
                self._send(sock.sendall, 1)
                self._wait(query)
            alone = batches(query)[WARM:]
            waits_alone = self._waits(alone, 0)
            self._pace(sock.sendall, WARM_SECONDS)
            first = len(self._sent)
            self._pace(sock.sendall, self._seconds)
            self._wait(query)
            done = [batch for batch in batches(query)[WARM + len(alone) :] if position(batch) > first + 1]
        waits = self._waits(done, first)
        cuts = quantiles(waits, n=100)
        return Result(
            sink,
            floor,
            median(waits_alone),
            _batch_ms(alone),
            cuts[49],
            cuts[98],
            max(waits),
            _batch_ms(done),
            median(batch.rows for batch in done),
            len(waits),
        )

    def _floor(self, sink: Sink) -> float:
        """A source that has its row without asking anybody."""
        source = (
            self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
        )
        with self._running(source.load(), sink) as query:
            deadline = time.monotonic() + DONE_WITHIN
            while len(done := batches(query)) < WARM + ALONE:
                _check(query, deadline)
                time.sleep(LOOK)
        return _batch_ms(done[WARM:])

    @contextmanager
    def _running(self, frame: "DataFrame", sink: Sink) -> Iterator["StreamingQuery"]:
        with scratch(self._workdir) as directory:
            writer = frame.writeStream.format(sink).option("checkpointLocation", str(directory / "checkpoint"))
            query = writer.start(None if sink == "noop" else str(directory / "rows"))
            try:
                yield query
            finally:
                query.stop()

    def _send(self, send: Send, count: int) -> None:
        for _ in range(count):
            line = self._lines.line(len(self._sent)).encode()
            self._sent.append(time.time())
            send(line)

    def _pace(self, send: Send, seconds: float) -> None:
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            due = round(RATE * passed)
            self._send(send, due - sent)
            sent = due
            time.sleep(TICK)

    def _wait(self, query: "StreamingQuery") -> None:
        """Until all that was sent is in the sink."""
        deadline = time.monotonic() + DONE_WITHIN
        while not (done := batches(query)) or position(done[-1]) <= len(self._sent):
            _check(query, deadline)
            time.sleep(LOOK)

    def _waits(self, done: list[Batch], first: int) -> list[float]:
        """Milliseconds, of the events in these batches but the `first` ones ever sent."""
        waits: list[float] = []
        for batch in done:
            after = position(batch) - 1
            events = self._sent[max(first, after - batch.rows) : after]
            waits += [(batch.ended - sent) * 1000 for sent in events]
        return waits


def position(batch: Batch) -> int:
    """After its last."""
    return int(json.loads(batch.end_offset)["position"])


def _batch_ms(done: list[Batch]) -> float:
    return median((batch.seconds - batch.looking) * 1000 for batch in done)


def _check(query: "StreamingQuery", deadline: float) -> None:
    if (error := query.exception()) is not None:
        raise WrongResult(str(error).splitlines()[0])
    if time.monotonic() > deadline:
        raise WrongResult(f"not in the sink within {DONE_WITHIN:.0f} s")
