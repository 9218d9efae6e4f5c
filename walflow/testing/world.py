"""Objects for the tests of connectors: the world a connector runs in, without runtime, sockets or waiting.

scheduler = Scheduler()
inlet = MemoryInlet(scheduler, behind_log=True)
running = asyncio.ensure_future(connector.run(inlet, MemoryOutlet(scheduler)))
await scheduler.settle()
inlet.give(inlet.block(b'{"n":1}\\n'))
await scheduler.settle()
assert inlet.acked == [b'{"n":1}\\n']
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from walflow.codecs import JSON
from walflow.contract import (
    FailedEvents,
    LetterWay,
    Marked,
    MessagePiece,
    MetricValue,
    Recalled,
    RunningFlow,
    Upstream,
)
from walflow.errors import WalflowError
from walflow.event import Block, Codec, Frames, Framing, Origin, ReadPlace, StreamId
from walflow.framing import LINES
from walflow.metrics import BucketedValues
from walflow.nodes.rejects import NOTHING_MORE
from walflow.receipt import Receipt

Done = Callable[[BaseException | None], None]


class Fatal(Exception):
    """Where a connector called `fatal`: the process would have ended with this error's line."""


class _Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class VirtualScheduler:
    """`walflow.contract.Scheduler` in virtual time: nothing happens but by `run`, `advance`, `work` and `settle`.

    Jobs run in the calling thread, in order. While `holding`, they stay in the air until `work` runs one. `fetches`,
    too, while `slow`: until `work_reads` runs one. Urgent jobs, too, while `hanging`: until `work_urgent` runs one.
    """

    def __init__(self) -> None:
        self.holding = False
        self.slow = False
        self.hanging = False
        self.fetches: deque[tuple[Callable[[], None], Done]] = deque()
        self.urgent: deque[tuple[Callable[[], None], Done]] = deque()
        self._now = 0.0
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._jobs: deque[tuple[Callable[[], None], Done]] = deque()
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return (
            f"<VirtualScheduler at {self._now} s, {len(self._soon)} calls, {len(self._jobs)} jobs, "
            f"timers {self.timers}>"
        )

    @property
    def timers(self) -> list[float]:
        """When each timer goes off, in seconds from now."""
        return sorted(due - self._now for due, _, timer in self._timers if timer.call is not None)

    @property
    def in_air(self) -> int:
        """Jobs submitted and not yet run."""
        return len(self._jobs)

    # walflow.contract.Scheduler

    def time(self) -> float:
        return self._now

    def awake(self) -> float:
        return self._now

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def call_later(self, delay: float, call: Callable[[], None]) -> _Timer:
        timer = _Timer(call)
        heapq.heappush(self._timers, (self._now + delay, next(self._numbers), timer))
        return timer

    def submit(self, job: Callable[[], None], done: Done, *, urgent: bool = False) -> None:
        (self.urgent if urgent else self._jobs).append((job, done))

    def fetch(self, job: Callable[[], None], done: Done, *, of: str = "") -> None:
        self.fetches.append((job, done))

    # for the test

    def run(self) -> bool:
        """All that is due now. True: there was something."""
        any_ran = False
        while (work := self._next_work()) is not None:
            any_ran = True
            work()
        return any_ran

    def _next_work(self) -> Callable[[], None] | None:
        if self._soon:
            return self._soon.popleft()
        if self._due():
            return self._fire
        if self.urgent and not self.hanging:
            return self.work_urgent
        if self._jobs and not self.holding:
            return self.work
        return self.work_reads if self.fetches and not self.slow else None

    def work(self) -> None:
        """The job in the air, and its `done`."""
        self._work(*self._jobs.popleft())

    def work_reads(self) -> None:
        """The read in the air, and its `done`."""
        self._work(*self.fetches.popleft())

    def work_urgent(self) -> None:
        """The urgent job in the air, and its `done`."""
        self._work(*self.urgent.popleft())

    def _work(self, job: Callable[[], None], done: Done) -> None:
        error: BaseException | None = None
        try:
            job()
        except Exception as raised:  # noqa: BLE001  # it belongs to the caller that submitted the job
            error = raised
        done(error)

    def advance(self, seconds: float) -> None:
        """Time passes, timer by timer."""
        end = self._now + seconds
        self.run()
        while self._timers and self._timers[0][0] <= end:
            self._now = max(self._now, self._timers[0][0])
            self.run()
        self._now = end

    async def settle(self) -> None:
        """All that is due now, and every coroutine as far as it gets with that."""
        quiet = 0
        while quiet < 5:  # turns of the loop that an await of an await may take
            quiet = 0 if self.run() else quiet + 1
            await asyncio.sleep(0)

    def _due(self) -> bool:
        return bool(self._timers) and self._timers[0][0] <= self._now

    def _fire(self) -> None:
        _, _, timer = heapq.heappop(self._timers)
        call, timer.call = timer.call, None
        if call is not None:
            call()


class MemoryCounter:
    def __init__(self) -> None:
        self.value = 0

    def __repr__(self) -> str:
        return f"<Counter {self.value}>"


class _Half:
    def __init__(self, scheduler: VirtualScheduler, name: str, linked: bool) -> None:
        self.scheduler = scheduler
        self.name = name
        self.linked = linked
        self.counters: dict[str, MemoryCounter] = {}
        self.gauges: dict[str, Callable[[], float]] = {}
        self.histograms: dict[str, BucketedValues] = {}
        self.metric_values: Sequence[MetricValue] = ()  # of the process
        self.stopped: list[bool] = []  # each time it asked the daemon to stop: whether gracefully
        self.explained: Callable[[], str] = lambda: ""
        self.logged: list[EventDict] = []
        self.log = cast(
            FilteringBoundLogger,
            structlog.wrap_logger(
                None, processors=[self._keep], wrapper_class=structlog.make_filtering_bound_logger(0)
            ),
        )

    @property
    def lines(self) -> list[str]:
        """What was logged, without levels and fields."""
        return [str(entry["event"]) for entry in self.logged]

    def explain(self, tell: Callable[[], str]) -> None:
        self.explained = tell

    def counter(self, name: str, **labels: str) -> MemoryCounter:
        return self.counters.setdefault(" ".join((name, *labels.values())), MemoryCounter())

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        self.gauges[" ".join((name, *labels.values()))] = read

    def histogram(self, name: str, bounds: Sequence[float], **labels: str) -> BucketedValues:
        return self.histograms.setdefault(" ".join((name, *labels.values())), BucketedValues(bounds))

    def metrics(self) -> Sequence[MetricValue]:
        return self.metric_values

    def fatal(self, error: WalflowError) -> NoReturn:
        raise Fatal(str(error)) from error

    def stop(self, *, graceful: bool) -> None:
        self.stopped.append(graceful)

    def _keep(self, _logger: WrappedLogger, level: str, entry: EventDict) -> EventDict:
        self.logged.append({"level": level, **entry})
        raise structlog.DropEvent


class MemoryInlet(_Half):
    """`walflow.contract.Inlet`. The outcomes stand in `acked`, `failed` and `rejected`, the breaker's history in
    `triggered` and its present reason in `breaker`. A second outcome for a block is an AssertionError."""

    def __init__(
        self,
        scheduler: VirtualScheduler,
        *,
        name: str = "test::sink",
        linked: bool = True,
        behind_log: bool = False,
        sole_path: bool = True,
        straight: bool = False,
        straight_files: bool = False,
        replaceable: bool = False,
    ) -> None:
        super().__init__(scheduler, name, linked)
        self.upstream = Upstream(behind_log, sole_path, straight, straight_files, replaceable, sources=1)
        self.encoded = False
        self.remembered: dict[str, Sequence[Recalled]] = {}
        self.acked: list[bytes] = []
        self.failed: list[tuple[bytes, str]] = []  # of those not done, with the cause
        self.rejected: list[tuple[bytes, str]] = []
        self.failed_tries: list[str] = []
        self.triggered: list[str] = []
        self.breaker: str | None = None
        self.half_opened = False  # the breaker is triggered, and the sources may send
        self.settled: list[Receipt] = []  # of whole blocks, in the order in which they settled
        self._stream = StreamId("test::source", 1, 1)
        self._waiting: list[Block] = []
        self._arrived: asyncio.Event | None = None
        self._accept: Callable[[Block], None] | None = None
        self._reopen: Callable[[], None] | None = None

    # for the test

    def block(
        self,
        data: bytes,
        *,
        origin: Origin | None = None,
        codec: Codec = JSON,
        framing: Framing = LINES,
        meta: Mapping[str, object] | None = None,
    ) -> Block:
        """A block whose receipt ends in `settled`."""
        count = framing.count(data)
        receipt = Receipt(self.settled.append, count)
        frames = Frames(data, count, framing)
        return Block(self._stream, frames, codec, receipt, ingest_ns=1, meta=meta or {}, origin=origin)

    def give(self, *blocks: Block) -> None:
        """Blocks arrive."""
        for block in blocks:
            if self._accept is not None:
                self._accept(block)
            else:
                self._waiting.append(block)
        if self._waiting and self._arrived is not None:
            self._arrived.set()

    def lines_of(self, *payloads: bytes, origin: Origin | None = None) -> Block:
        """`block` of the payloads, a line each."""
        return self.block(LINES.join(payloads), origin=origin)

    def reopen(self) -> None:
        """SIGHUP."""
        assert self._reopen is not None, "on_reopen was not called"
        self._reopen()

    # walflow.contract.Inlet

    async def take(self) -> list[Block]:
        if self._arrived is None:
            self._arrived = asyncio.Event()
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        waiting, self._waiting = self._waiting, []
        return waiting

    def serve(self, accept: Callable[[Block], None]) -> None:
        self._accept = accept
        waiting, self._waiting = self._waiting, []
        for block in waiting:
            accept(block)

    def messages(self, block: Block) -> list[bytes]:
        return block.frames.payloads()

    def share(self) -> tuple[int, int | None]:
        return 2 << 20, None

    def ack(self, block: Block) -> None:
        self._once(block)
        self.acked.append(block.frames.data)
        block.receipt.ack(self.name)

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        self._once(block)
        self.failed.append((block.frames.slice(done, block.frames.count).data, str(cause)))
        block.receipt.fail(cause, done, self.name)

    def reject(self, block: Block, reason: str) -> None:
        self._once(block)
        self.rejected.append((block.frames.data, reason))
        block.receipt.ack(self.name)

    def trigger(self, reason: str) -> None:
        self.triggered.append(reason)
        self.breaker = reason
        self.half_opened = False

    def half_open(self) -> None:
        self.half_opened = True

    def failed_try(self, cause: str, block: Block | None = None) -> None:
        self.failed_tries.append(cause)

    def retries(self, tell: Callable[[int], FailedEvents]) -> None:
        self.failed_events = tell

    def restore(self) -> None:
        self.breaker = None
        self.half_opened = False

    def remember(self, source: str, events: Sequence[Recalled]) -> None:
        self.remembered[source] = events

    def on_reopen(self, call: Callable[[], None]) -> None:
        self._reopen = call

    @staticmethod
    def _once(block: Block) -> None:
        assert block.receipt.pending > 0, f"{block} had an outcome already"


class MemoryStream:
    """`walflow.contract.Stream`: what was fed and emitted, and how it ended."""

    def __init__(
        self, id: StreamId, meta: Mapping[str, object], pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self.id = id
        self.meta = meta
        self.fed: list[bytes] = []
        self.rejected: list[str] = []
        self.emitted: list[object] = []
        self.ended: str | None = None  # "complete", "incomplete", "closed", "abandoned"
        self.marks: list[Callable[[Marked], None]] = []  # not settled: call one to do so
        self.pause = pause
        self.resume = resume

    def feed(self, data: bytes) -> None:
        assert self.ended is None, f"feed after {self.ended}"
        self.fed.append(data)

    @property
    def open_lines(self) -> int:
        return 0

    @property
    def patience(self) -> float:
        return 0.0

    def end_event(self) -> None:
        """It knows nothing of lines."""

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        assert self.ended is None, f"feed after {self.ended}"
        self.fed += messages

    def reject(self, reason: str) -> None:
        assert self.ended is None, f"reject after {self.ended}"
        self.rejected.append(reason)

    def emit(self, values: Sequence[object]) -> None:
        assert self.ended is None, f"emit after {self.ended}"
        self.emitted += values

    def eof(self, *, complete: bool) -> None:
        assert self.ended is None, f"eof after {self.ended}"
        self.ended = "complete" if complete else "incomplete"

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def mark(self, settled: Callable[[Marked], None]) -> None:
        self.marks.append(settled)

    def abandon(self) -> None:
        self.ended = self.ended or "abandoned"

    def rest(self) -> bytes | None:
        return b""


def _nothing() -> None: ...


class MemoryOutlet(_Half):
    """`walflow.contract.Outlet`. What came stands in `streams`, `sent` and `rejected`; `pause` and `resume` are the
    window or a breaker."""

    def __init__(
        self, scheduler: VirtualScheduler, *, name: str = "test::source", linked: bool = True, paused: bool = False
    ) -> None:
        super().__init__(scheduler, name, linked)
        self.run = 1
        self.codec: Codec = JSON
        self.flow: RunningFlow | None = None
        self.framed = False
        self.form = "lines"
        self.window = 8 << 20
        self.window_events: int | None = None
        self.max_event_bytes = 1 << 20
        self.streams: list[MemoryStream] = []
        self.sent: list[Block] = []
        self.rejected: list[tuple[bytes, str]] = []
        self.count_backlog: Callable[[], int] = lambda: 0
        self.waits_for: Callable[[], str] = lambda: ""
        self.recall: Sequence[Recalled] = ()
        self.apart: dict[str, MemoryOutlet] = {}
        self.sinks: Sequence[str] = ()
        self.letters: Sequence[LetterWay] = ()
        self._paused = paused
        self._resumed: asyncio.Event | None = None
        self._on_ready: Callable[[], None] = _nothing

    # for the test

    def pause(self) -> None:
        self._paused = True
        for stream in self.streams:
            stream.pause()

    def resume(self) -> None:
        self._paused = False
        if self._resumed is not None:
            self._resumed.set()
        for stream in self.streams:
            stream.resume()
        self._on_ready()

    # walflow.contract.Outlet

    @property
    def lanes(self) -> "Mapping[str, MemoryOutlet]":
        """Those that the test has put in `apart`."""
        return self.apart or {self.name: self}

    def stream(
        self,
        meta: Mapping[str, object],
        *,
        pause: Callable[[], None] = _nothing,
        resume: Callable[[], None] = _nothing,
        broken: Callable[[], None] = _nothing,
        marks: bool = False,
        place: ReadPlace | None = None,
    ) -> MemoryStream:
        stream = MemoryStream(StreamId(self.name, self.run, len(self.streams) + 1), meta, pause, resume)
        self.streams.append(stream)
        if self._paused:
            pause()
        return stream

    def send(self, block: Block) -> bool:
        if self._paused:
            return False
        self.sent.append(block)
        return True

    def next_turn(self, call: Callable[[], None]) -> None:
        self.scheduler.call_soon(call)

    def cut(self, message: bytes) -> Iterator[MessagePiece]:
        """As without preprocessors."""
        return iter((MessagePiece(len(message), event=message),))

    def on_ready(self, call: Callable[[], None]) -> None:
        self._on_ready = call

    async def ready(self) -> None:
        if self._resumed is None:
            self._resumed = asyncio.Event()
        while self._paused:
            self._resumed.clear()
            await self._resumed.wait()

    def note_rejected(self, block: Block, reason: str, told: Mapping[str, object]) -> None:
        self.rejected.append((block.frames.data, reason))

    def reject(self, block: Block, reason: str, told: Mapping[str, object] = NOTHING_MORE) -> None:
        self.rejected.append((block.frames.data, reason))
        block.receipt.ack(self.name)

    def waits(self) -> None: ...

    def retries(self, tell: Callable[[int], FailedEvents]) -> None:
        self.failed_events = tell

    def recalled(self) -> Sequence[Recalled]:
        return self.recall

    def backlog(self, count: Callable[[], int], waits_for: Callable[[], str] = lambda: "") -> None:
        self.count_backlog = count
        self.waits_for = waits_for
