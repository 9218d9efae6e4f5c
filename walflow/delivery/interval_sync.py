"""`sync = "interval"`: written events are acked, and synced at most one interval later, on the scheduler's thread.
Then the cursor is written, so that the next start knows what was synced."""

from collections.abc import Callable
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import Half
from walflow.delivery.one_at_a_time import OneAtATime
from walflow.errors import DiskFull
from walflow.metrics import SYNC_SECONDS
from walflow.wal import Log, Sync

RETRY: Final = 1.0  # seconds, on a full disk or where no file can be opened


class Syncing:
    """`interval` is in seconds. Call `written` after each commit, in the turn in which its events are acked."""

    def __init__(self, log: Log, half: Half, interval: float, on_synced: Callable[[], None]) -> None:
        self._log = log
        self._half = half
        self._interval = interval
        self._on_synced = on_synced
        self._seconds = half.histogram("wal_sync_seconds", SYNC_SECONDS)
        self._planned = False
        self._syncs = OneAtATime(half, log.sync, self._synced, self._tell_full, Backoff(RETRY, RETRY))

    def written(self) -> None:
        if not self._planned:
            self._planned = True
            self._half.scheduler.call_later(self._interval, self._due)

    def stop(self) -> None:
        """The log syncs what is left when it is closed."""
        self._syncs.stop()

    def _due(self) -> None:
        self._planned = False
        self._syncs.want()

    def _synced(self, sync: Sync) -> None:
        self._log.synced(sync)
        self._seconds.observe(sync.seconds)
        self._on_synced()

    def _tell_full(self, error: DiskFull) -> None:
        self._half.log.warning("log not synced", reason=str(error))
