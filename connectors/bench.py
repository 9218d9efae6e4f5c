"""Measures a flow: a source that replays a file, and a sink that says how long events took to reach it.

Latency is the time from `ingest_ns`, which a source gives an event, to the sink's `accept`, both by the wall clock of
one machine.
"""

import asyncio
import base64
import binascii
import itertools
import json
import os
import sys
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import ClassVar, Final, Protocol, Self, cast

from pydantic import Field, model_validator

from walflow import (
    Block,
    CodecUse,
    Connector,
    Guarantee,
    Inlet,
    Outlet,
    Ports,
    Risk,
    Scheduler,
    Size,
    Traits,
    WalflowError,
    lacks,
)
from walflow.files import FILE_WINDOW_BITS, Corrupt, Members
from walflow.world import wall_ns

try:
    from hdrh.histogram import HdrHistogram  # pyright: ignore[reportMissingTypeStubs]  # has no types
except ImportError as missing:
    raise WalflowError(lacks("it", "hdr")) from missing

NANOS: Final = 1_000_000_000
BATCH_BYTES: Final = 64 << 10  # what is given to the flow at once, as a busy socket's read would be
BATCH_EVENTS: Final = 1024
LONGEST: Final = 3600 * NANOS  # a latency beyond it is recorded as this
TICKS_PER_HALF: Final = 2  # how many percentiles are shown each time the way to 100 is halved
ALGORITHMS: Final = {".gz": "gzip", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}  # by the end of the name


class CannotReplay(WalflowError):
    """The file cannot be read, or there is nothing in it to send."""


class Bench(Connector):
    """Measures a flow. The source sends the lines of a file again and again. The sink counts events and measures how
    long each took to reach it. The daemon drains and stops when the source has sent everything, or when
    `stop_after_events` or `stop_after_secs` is reached. Then the report goes to stdout. Needs the extra `hdr`."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, messages=True, decodes=False, takes_bytes=False)

    path: str | None = Field(
        default=None,
        description="The file to send. `.gz`, `.xz`, `.zst` and `.lz4` are decompressed. The whole file is held in "
        "memory. Default: none, the connector is only a sink.",
    )
    interval: int | None = Field(
        default=None,
        gt=0,
        strict=True,
        description="Nanoseconds from one event to the next. An event that is late is sent at once. Default: as fast "
        "as the flow accepts events.",
    )
    chunk_size: Size | None = Field(
        default=None,
        ge=1,
        description="Sends this many bytes at a time instead of lines. Preprocessors then have to find the events in "
        "them.",
    )
    iters: int | None = Field(default=None, ge=1, description="How often the file is sent. Default: no limit.")
    base64: bool = Field(
        default=False, description="Whether each line (or chunk) is base64 and is decoded before it is sent."
    )
    is_transactional: bool = Field(
        default=False,
        description=(
            "A key of tremor's, accepted and not used: events that a sink fails are always counted and logged."
        ),
    )
    structured: bool = Field(default=False, description="Whether the report is one line of JSON.")
    stop_after_events: int | None = Field(
        default=None, ge=1, description="Stops after this many measured events. Default: no limit."
    )
    stop_after_secs: int = Field(
        default=0, ge=0, description="Stops after measuring for this many seconds. Default: no limit."
    )
    warmup_secs: int = Field(
        default=0, ge=0, description="Seconds at the start during which events are not measured."
    )
    significant_figures: int = Field(
        default=2,
        ge=1,
        le=5,
        description="Number of significant digits of a recorded latency. With 4, the report takes seconds; with 5, "
        "about 20 seconds.",
    )

    @model_validator(mode="after")
    def _no_zero_bytes(self) -> Self:
        if self.path is not None and "\0" in self.path:
            raise ValueError("a path has no zero byte")
        return self

    def ports_used(self) -> Ports:
        return self.ports if self.path is not None else Ports(outputs=("err",))

    def how_to_use(self, port: str) -> str:
        return "it sends what is in the file that `path` in its `config` names" if port == "out" else ""

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="made for measuring: an event that a sink fails is not sent again",
            sink="made for measuring: an event is acked, measured and dropped",
            warnings=(Risk("dropped", "what reaches it is dropped, and the log upstream deletes it too"),)
            if behind_log
            else (),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        elements = await asyncio.to_thread(self._elements) if out.linked else []
        measuring = Measuring(self, inlet)
        inlet.serve(measuring.accept)
        if self.stop_after_secs:
            seconds = self.warmup_secs + self.stop_after_secs
            out.scheduler.call_later(seconds, lambda: inlet.stop(graceful=True))
        try:
            if out.linked:
                await self._replay(elements, out)
                out.stop(graceful=True)
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            if inlet.linked:
                _print(measuring.json() if self.structured else measuring.text(), inlet)

    def _elements(self) -> list[bytes]:
        """What is sent one by one. On a thread. Raises CannotReplay."""
        assert self.path is not None
        data = _read(self.path)
        size = self.chunk_size
        elements = data.splitlines() if size is None else [data[at : at + size] for at in range(0, len(data), size)]
        if not elements:
            raise CannotReplay(f"cannot replay {self.path}: it is empty")
        return (
            [_decode(self.path, number, line) for number, line in enumerate(elements, 1)] if self.base64 else elements
        )

    async def _replay(self, elements: Sequence[bytes], out: Outlet) -> None:
        if self.iters is None and self.stop_after_events is None and not self.stop_after_secs:
            out.log.warning(
                "sends without end", reason="none of iters, stop_after_events and stop_after_secs is given"
            )
        pace = SendPace(out.scheduler, self.interval / NANOS) if self.interval is not None else None
        stream = out.stream({})
        try:
            for _ in range(self.iters) if self.iters is not None else itertools.count():
                for batch in _batches(elements, 1 if pace else BATCH_EVENTS):
                    if pace:
                        await pace.wait()
                    await out.ready()
                    stream.feed_messages(batch)
                    await asyncio.sleep(0)  # a flow that is always ready leaves others their turn
            stream.eof(complete=True)
        except BaseException:
            stream.close()
            raise


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
        algorithm = ALGORITHMS.get(os.path.splitext(path)[1])
        return _decompressed(data, algorithm) if algorithm else data
    except OSError as error:
        raise CannotReplay(f"cannot replay {path}: {error.strerror or error}") from error
    except Corrupt as error:
        raise CannotReplay(f"cannot replay {path}: it is damaged: {error}") from error


def _decompressed(data: bytes, algorithm: str) -> bytes:
    members = Members(algorithm, FILE_WINDOW_BITS)
    members.feed(data)
    pieces: list[bytes] = []
    while (read := members.read()) is not None:
        pieces.append(read[0])
    members.end()
    return b"".join(pieces)


def _decode(path: str, number: int, element: bytes) -> bytes:
    try:
        return base64.b64decode(element, validate=True)
    except binascii.Error as error:
        raise CannotReplay(f"cannot replay {path}: line {number} is no base64: {error}") from error


def _batches(elements: Sequence[bytes], most: int) -> list[Sequence[bytes]]:
    """In order: up to `most` elements each, and no more bytes than a read brings."""
    batches: list[Sequence[bytes]] = []
    start = size = 0
    for number, element in enumerate(elements):
        if number - start == most or (size and size + len(element) > BATCH_BYTES):
            batches.append(elements[start:number])
            start, size = number, 0
        size += len(element)
    batches.append(elements[start:])
    return batches


class SendPace:
    """A point in time every `interval` seconds; a caller that is late does not wait."""

    def __init__(self, scheduler: Scheduler, interval: float) -> None:
        self._scheduler = scheduler
        self._interval = interval
        self._next = scheduler.time()

    async def wait(self) -> None:
        self._next += self._interval
        delay = self._next - self._scheduler.time()
        if delay > 0:
            passed = asyncio.Event()
            self._scheduler.call_later(delay, passed.set)
            await passed.wait()


class Percentile(Protocol):
    value_iterated_to: int
    percentile_level_iterated_to: float


class LatencyHistogram(Protocol):
    """What is used of `HdrHistogram`."""

    bucket_count: int
    sub_bucket_count: int

    def record_value(self, value: int, count: int) -> bool: ...
    def get_total_count(self) -> int: ...
    def get_value_at_percentile(self, percentile: float) -> int: ...
    def get_mean_value(self) -> float: ...
    def get_stddev(self) -> float: ...
    def get_max_value(self) -> int: ...
    def get_percentile_iterator(self, ticks_per_half_distance: int) -> Iterable[Percentile]: ...
    def output_percentile_distribution(self, out_file: BytesIO, scale: int, ticks_per_half: int) -> None: ...


class Measuring:
    """What came, and how long it took. `wall`: nanoseconds since 1970."""

    def __init__(self, config: Bench, inlet: Inlet) -> None:
        self._inlet = inlet
        self._limit = config.stop_after_events
        self._time = inlet.scheduler.time
        self._begin = self._end = self._time() + config.warmup_secs
        self._bytes = 0
        self._latencies = cast(LatencyHistogram, HdrHistogram(1, LONGEST, config.significant_figures))

    def __repr__(self) -> str:
        return f"<Measuring {self.count} events, {self._bytes} bytes>"

    @property
    def count(self) -> int:
        return self._latencies.get_total_count()

    def accept(self, block: Block) -> None:
        now = self._time()
        if now >= self._begin and (self._limit is None or self.count < self._limit):
            self.record(wall_ns() - block.ingest_ns, block.frames.count)
            self._bytes += len(block.frames.data)
            self._end = now
            if self._limit is not None and self.count >= self._limit:
                self._inlet.stop(graceful=True)
        self._inlet.ack(block)

    def record(self, latency: int, count: int) -> None:
        """A clock that was set makes latencies that are none: they are taken for the least or the longest."""
        self._latencies.record_value(min(max(latency, 1), LONGEST), count)

    def percentile(self, percent: float) -> int:
        """Nanoseconds within which so many of 100 events came, not too few by more than the figures recorded."""
        return self._latencies.get_value_at_percentile(percent)

    @property
    def _seconds(self) -> float:
        """From the start of measuring to the last event."""
        return max(self._end - self._begin, 1e-9)

    def text(self) -> str:
        """HdrHistogram's own format, in nanoseconds, and what came in a second."""
        table = BytesIO()
        self._latencies.output_percentile_distribution(table, 1, TICKS_PER_HALF)
        return (
            f"{table.getvalue().decode()}\n\n"
            f"Throughput   (data): {self._bytes / self._seconds / (1 << 20):.1f} MB/s\n"
            f"Throughput (events): {self.count / self._seconds / 1000:.1f}k events/s\n"
        )

    def json(self) -> str:
        """tremor's keys; latencies in nanoseconds."""
        latencies = self._latencies
        quantiles = [
            {"value": each.value_iterated_to, "quantile_to": each.percentile_level_iterated_to / 100}
            for each in latencies.get_percentile_iterator(TICKS_PER_HALF)
        ]
        report = {
            "mean": latencies.get_mean_value(),
            "stdev": latencies.get_stddev(),
            "max": latencies.get_max_value(),
            "count": self.count,
            "buckets": latencies.bucket_count,
            "subbuckets": latencies.sub_bucket_count,
            "bytes": self._bytes,
            "throughput": {
                "events_per_second": self.count / self._seconds,
                "bytes_per_second": self._bytes / self._seconds,
            },
            "quantiles": quantiles,
        }
        return json.dumps(report) + "\n"


def _print(report: str, inlet: Inlet) -> None:
    try:
        sys.stdout.write(report)
        sys.stdout.flush()
    except OSError as error:
        inlet.log.error("cannot print the report", reason=error.strerror or str(error))
