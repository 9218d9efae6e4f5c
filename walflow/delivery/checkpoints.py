"""Writes the cursor soon after an ack, soon after a commit that no sink acks, and at once if space is needed.

The cursor says which positions are acked, so that they are not sent again. It also says which positions are durable,
so that a missing file is noticed. The second must not wait for the first, because a sink may be down for hours. If
nothing happens, nothing is written.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import Half, Scheduler, Timer
from walflow.delivery.one_at_a_time import OneAtATime
from walflow.errors import DiskFull
from walflow.wal import Checkpoint, Log
from walflow.world import handover

INTERVAL: Final = 0.1  # seconds after an ack, at most: what a crash may repeat is what was acked in them
LEAST: Final = 0.02  # the same on a quick disk, where each commit is synced too
SHARE: Final = 50  # writes take a fiftieth of the time at most, until the interval is the longest
RETRY: Final = 1.0  # seconds, on a full disk or where no file can be opened
COMMIT_INTERVAL: Final = 0.5  # seconds after a commit: the cursor is on disk within 1 s, with time for a slow disk


class Checkpoints:
    def __init__(self, log: Log, scheduler: Scheduler, half: Half, on_space: Callable[[], None]) -> None:
        self._log = log
        self._scheduler = scheduler
        self._half = half
        self._on_space = on_space
        self._handover = handover()
        self._delay = inf  # how long what the cursor does not say yet may wait
        self._interval = INTERVAL  # after an ack
        self._began = 0.0  # the last write
        self._timer: Timer | None = None
        self._writes = OneAtATime(half, self._take, self._written, self._tell_full, Backoff(RETRY, RETRY))
        self._wanted = False
        self._stopped = False
        self.low = log.low  # acked below it, and in both slots on disk: even if one slot is lost, none comes again
        self._newer_low = self._writing_low = log.low

    @property
    def wanted(self) -> bool:
        """Whether the log's user waits for space. Then an ack is written at once, without the interval."""
        return self._wanted

    def want_space(self, wanted: bool) -> None:
        self._wanted = wanted
        if wanted:
            self.acked()

    def acked(self) -> None:
        """A position was acked that the cursor on disk does not have yet."""
        if self._wanted and self._writes.in_air is None:
            self._write()
        else:
            self._plan(self._interval)

    def now(self) -> None:
        """What is to be written is written at once."""
        self._write()

    def committed(self) -> None:
        """A position is durable that the cursor on disk does not have yet."""
        self._plan(COMMIT_INTERVAL)

    def stop(self) -> None:
        self._stopped = True
        self._writes.stop()
        self._cancel()

    def _plan(self, delay: float) -> None:
        """Plans the next write. While one is running, the delay of the next begins at its end."""
        if delay >= self._delay:
            return
        self._delay = delay
        if self._writes.in_air is None:
            self._begin_delay()

    def _begin_delay(self) -> None:
        self._cancel()
        if not self._stopped:
            self._timer = self._scheduler.call_later(self._delay, self._write)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self) -> None:
        if self._handover.watched:  # the process before may go on from the cursor that it left
            self._delay = INTERVAL
            self._begin_delay()
        elif self._writes.in_air is None:
            self._writes.want()

    def _take(self) -> Checkpoint | None:
        self._cancel()
        self._delay = inf
        self._writing_low = self._log.low
        self._began = self._scheduler.time()
        return self._log.checkpoint(short=self._wanted)

    def _tell_full(self, error: DiskFull) -> None:
        self._half.log.warning("cursor not written", reason=str(error))

    def _written(self, checkpoint: Checkpoint) -> None:
        self._log.checkpointed(checkpoint)
        if not self._log.relaxed:
            self._interval = min(INTERVAL, max(LEAST, SHARE * (self._scheduler.time() - self._began)))
        self.low, self._newer_low = self._newer_low, self._writing_low
        self._on_space()
        if self._wanted or self._log.history.overflows:
            self._write()
        elif self._delay < inf and self._timer is None:
            self._begin_delay()
