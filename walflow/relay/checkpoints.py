"""Writes the cursor soon after an ack, and soon after a commit that no sink acks; at once where space is wanted.

The cursor says what was acked, so that it does not come again, and what was durable, so that a file that vanishes is
missed. The second must not wait for the first: a sink may be away for hours. A log in which nothing happens writes
nothing.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from walflow.contract import Half, Scheduler, Timer
from walflow.errors import DiskFull, WalflowError
from walflow.wal import Checkpoint, Log

INTERVAL: Final = 0.1  # seconds after an ack: what a crash may repeat is what was acked in them
COMMIT_INTERVAL: Final = 0.5  # seconds after a commit: the cursor is on disk within 1 s, with time for a slow disk


class Checkpoints:
    def __init__(self, log: Log, scheduler: Scheduler, half: Half, on_space: Callable[[], None]) -> None:
        self._log = log
        self._scheduler = scheduler
        self._half = half
        self._on_space = on_space
        self._delay = inf  # how long what the cursor does not say yet may wait
        self._timer: Timer | None = None
        self._writing: Checkpoint | None = None
        self._wanted = False
        self._stopped = False
        self.low = log.low  # acked below it, and in both slots on disk: whatever becomes of one, none comes again
        self._newer_low = self._writing_low = log.low

    @property
    def wanted(self) -> bool:
        """Whether the log's user waits for space: then an ack does not wait out the interval."""
        return self._wanted

    def want_space(self, wanted: bool) -> None:
        self._wanted = wanted
        if wanted:
            self.acked()

    def acked(self) -> None:
        """Something was acked that the cursor does not say."""
        if self._wanted and self._writing is None:
            self._write()
        else:
            self._plan(INTERVAL)

    def committed(self) -> None:
        """Something is durable that the cursor does not say."""
        self._plan(COMMIT_INTERVAL)

    def stop(self) -> None:
        self._stopped = True
        self._cancel()

    def _plan(self, delay: float) -> None:
        """While one is being written, the next one's delay begins when that is done."""
        if delay >= self._delay:
            return
        self._delay = delay
        if self._writing is None:
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
        if self._writing is not None or self._stopped:
            return
        self._cancel()
        self._delay = inf
        self._writing_low = self._log.low
        self._writing = checkpoint = self._log.checkpoint()
        if checkpoint is not None:
            self._scheduler.submit(checkpoint.flush, self._written)

    def _written(self, error: BaseException | None) -> None:
        checkpoint = self._writing
        assert checkpoint is not None
        if isinstance(error, DiskFull):
            self._half.log.warning("cursor not written", reason=str(error))
            self._scheduler.call_later(1.0, self._again)
            return
        if error is not None:
            self._half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        self._writing = None
        self._log.checkpointed(checkpoint)
        self.low, self._newer_low = self._newer_low, self._writing_low
        self._on_space()
        if self._wanted:
            self._write()
        elif self._delay < inf and self._timer is None:
            self._begin_delay()

    def _again(self) -> None:
        if self._writing is not None and not self._stopped:
            self._scheduler.submit(self._writing.flush, self._written)
