"""`sync = "interval"`: what has been written, and so acked, is synced at most the interval later, on the scheduler's
thread. The cursor follows, so that a start knows what was synced."""

from collections.abc import Callable
from typing import Final

from walflow.contract import Half
from walflow.errors import DiskFull, WalflowError
from walflow.metrics import SYNC_SECONDS
from walflow.wal import Log, Sync

RETRY: Final = 1.0  # seconds, where no file could be opened


class Syncing:
    """`interval` is in seconds. `written` is to be called after each commit, before its events are acked."""

    def __init__(self, log: Log, half: Half, interval: float, on_synced: Callable[[], None]) -> None:
        self._log = log
        self._half = half
        self._scheduler = half.scheduler
        self._interval = interval
        self._on_synced = on_synced
        self._seconds = half.histogram("wal_sync_seconds", SYNC_SECONDS)
        self._planned = False
        self._overtaken = False  # the next one is due before this one is done
        self._flying: Sync | None = None
        self._stopped = False

    def written(self) -> None:
        if not self._planned:
            self._planned = True
            self._scheduler.call_later(self._interval, self._due)

    def stop(self) -> None:
        """The log syncs what is left when it is closed."""
        self._stopped = True

    def _due(self) -> None:
        self._planned = False
        if self._flying is None:
            self._sync()
        else:
            self._overtaken = True

    def _sync(self) -> None:
        if self._stopped:
            return
        self._flying = sync = self._log.sync()
        if sync is not None:
            self._scheduler.submit(sync.flush, self._flushed)

    def _flushed(self, error: BaseException | None) -> None:
        sync = self._flying
        assert sync is not None
        if isinstance(error, DiskFull):
            self._half.log.warning("log not synced", reason=str(error))
            self._scheduler.call_later(RETRY, self._again)
            return
        if error is not None:
            self._half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        self._flying = None
        self._log.synced(sync)
        self._seconds.observe(sync.seconds)
        self._on_synced()
        if self._overtaken:
            self._overtaken = False
            self._sync()

    def _again(self) -> None:
        if self._flying is not None and not self._stopped:
            self._scheduler.submit(self._flying.flush, self._flushed)
