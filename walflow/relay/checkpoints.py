"""Writes the cursor some time after an ack: at most `interval` later, at once where space is wanted."""

from collections.abc import Callable
from typing import Final

from walflow.contract import Half, Scheduler
from walflow.errors import DiskFull, WalflowError
from walflow.wal import Checkpoint, Log

INTERVAL: Final = 0.1  # seconds: what a crash may repeat is what was acked in them


class Checkpoints:
    def __init__(self, log: Log, scheduler: Scheduler, half: Half, on_space: Callable[[], None]) -> None:
        self._log = log
        self._scheduler = scheduler
        self._half = half
        self._on_space = on_space
        self._planned = False
        self._writing: Checkpoint | None = None
        self._stopped = False
        self.low = log.low  # acked below it, and in both slots on disk: whatever becomes of one, none comes again
        self._newer_low = self._writing_low = log.low
        self.wanted = False  # someone waits for space: do not wait out the interval

    def acked(self) -> None:
        """Something was acked: the cursor is behind."""
        if self.wanted:
            self._write()
        elif not self._planned and self._writing is None:
            self._planned = True
            self._scheduler.call_later(INTERVAL, self._due)

    def stop(self) -> None:
        self._stopped = True

    def _due(self) -> None:
        self._planned = False
        self._write()

    def _write(self) -> None:
        if self._writing is not None or self._stopped:
            return
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
        self.acked()

    def _again(self) -> None:
        if self._writing is not None and not self._stopped:
            self._scheduler.submit(self._writing.flush, self._written)
