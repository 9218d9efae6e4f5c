"""A region with windows: what closes them when no event comes, and what becomes of them at a stop.

Between events the region's time is that of its last event and the time since then: no clock is asked for the date. It
goes on while the sources upstream have nothing that they have not sent, as an older event might be among it.

An event that a log upstream sends has the log's time, which never goes back. Other sources stamp by the wall clock.
If that was set back, an event counts at the region's time.
"""

from typing import Final

import structlog

from walflow.contract import Gate, Scheduler, Timer
from walflow.event import Block
from walflow.operators.operator import OperatorContext
from walflow.operators.select import Select
from walflow.operators.stateful import LENT_BYTES, StatefulSelect
from walflow_kernel.state import Room, State
from walflow_kernel.windows.frame import COUNT

SET_BACK: Final = (
    1_000_000_000  # nanoseconds: no event waits so long between its source and a region without a log before it
)
LOG_DELAY: Final = 1_000_000_000  # nanoseconds that an event may need through a log upstream
RETRY: Final = 0.1  # seconds
TICK_BYTES: Final = 2048  # what a tick without results takes of a turn: the loop has its turn after some 2,000

log = structlog.get_logger()


class WindowSelect(StatefulSelect):
    """`flushes`: at a stop open windows are closed, and not dropped."""

    def __init__(self, select: Select, gate: Gate, state: State, place: OperatorContext, *, flushes: bool) -> None:
        super().__init__(select, gate)
        self._compiled = select.compiled
        self._state = state
        self._place = place
        self._flushes = flushes
        self._scheduler: Scheduler | None = None
        self._timer: Timer | None = None
        self._rested: Timer | None = None
        self._armed = 0  # for this tick
        self._last = 0  # the time of the last event
        self._came = 0.0  # when it came
        self._draining = self._flushing = False

    def __repr__(self) -> str:
        open_windows = self._compiled.open_windows(self._state)
        return f"<WindowSelect {self._place.name} {len(open_windows)} windows, {self.waiting} waiting>"

    def take(self, block: Block) -> Block | None:
        if block.ingest_ns < self._last - SET_BACK and not self._delay():
            block = block.with_frames(block.frames, block.codec)
            block.ingest_ns = self._time()
        if not self._tick(block.ingest_ns):
            if not self._gate.shut:
                self._rest()
            return block
        left = super().take(block)
        if block.ingest_ns >= self._last:
            self._last, self._came = block.ingest_ns, self._now()
        if self._draining and self._flushes:
            self._flush()
        else:
            self._arm()
        return left

    def _go_on(self) -> None:
        super()._go_on()
        if self._draining and self._flushes and not self.waiting:
            self._flush()

    @property
    def oldest_seconds(self) -> float:
        """For how long the oldest window by interval has been open, by the region's time."""
        opened = self._compiled.oldest(self._state)
        return 0.0 if opened is None else max(0.0, (self._time() - opened) / 1e9)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def drain(self) -> None:
        self._draining = True
        self._disarm()
        if self._flushes and not self.waiting:
            self._flush()

    def end(self) -> None:
        """What is still open is lost: the events in it are acked."""
        super().end()
        self._disarm()
        if self._rested is not None:
            self._rested.cancel()
        frames = self._compiled.open_windows(self._state)
        if frames:
            events = sum(frame[COUNT] for frame in frames)
            log.info("open windows dropped", component=self._place.name, windows=len(frames), events=events)

    # ---- time

    def _now(self) -> float:
        return self._scheduler.time() if self._scheduler is not None else 0.0

    def _time(self) -> int:
        return self._last + int((self._now() - self._came) * 1e9)

    def _delay(self) -> int:
        return LOG_DELAY if any(source.transactional for source in self._place.windows) else 0

    def _tick(self, now_ns: int) -> bool:
        """Each tick by itself, so that its results have its time; a large one in parts, as long as their buffers have
        room. False: it is not done with all of them."""
        room = LENT_BYTES
        while (due := self._compiled.due(self._state)) is not None and due <= now_ns:
            if self._gate.shut or room < 0:
                return False
            part: Room = [LENT_BYTES, None]
            self._select.let_go(self._compiled.tick(self._state, due, part), due)
            room -= LENT_BYTES - part[0] + TICK_BYTES
        return True

    def _rest(self) -> None:
        """A log that says nothing of an hour has many ticks: other nodes run between them."""
        if self._scheduler is not None:
            self._resting = True
            self._rested = self._scheduler.call_later(0.0, self._wake)

    def _wake(self) -> None:
        self._resting = False
        self._go_on()

    def _flush(self) -> None:
        """In parts, as long as the buffers have room; the rest once they have."""
        if self._flushing:  # what leaves may shut the gate and open it
            return
        self._flushing = True
        try:
            while not self._gate.shut and self._compiled.has_groups(self._state):
                self._select.let_go(self._compiled.flush(self._state, self._last, [LENT_BYTES, None]), self._last)
        finally:
            self._flushing = False

    def _arm(self) -> None:
        due = self._compiled.due(self._state)
        if due == self._armed or self._scheduler is None or self._draining:
            return
        self._disarm()
        if due is not None:
            self._armed = due
            seconds = (due + self._delay() - self._last) / 1e9 - (self._now() - self._came)
            self._timer = self._scheduler.call_later(max(0.0, seconds), self._due)

    def _disarm(self) -> None:
        self._armed = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        assert self._scheduler is not None
        armed, self._timer = self._armed, None
        if self._gate.shut or self.waiting or any(source.waiting() for source in self._place.windows):
            self._timer = self._scheduler.call_later(RETRY, self._due)
            return
        self._armed = 0
        self._tick(max(armed, self._time() - self._delay()))
        self._arm()
