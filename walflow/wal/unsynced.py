"""What a relaxed log, which acks before it syncs, has written and not synced.

With `sync = "interval"`, chunks that are full stay open until a sync covers them. A sync is a `Sync`, which has three
phases as a commit has; one runs at a time. A commit that is too far ahead of the disk does the sync itself.
"""

from typing import Final

from walflow.wal.chunk import Chunk
from walflow.wal.commit import Commit, Sync
from walflow.wal.directory import Directory
from walflow.wal.format import INTERVAL, SKIP, SYNCED

UNSYNCED_CHUNKS: Final = 16  # that are full and kept open for their sync


class Unsynced:
    """`mode`: how the log syncs, as its cursor says it. `up_to`: all positions up to this one are synced. `running`:
    the sync that was begun and has not ended. `full`: chunks that are open for a sync yet to come, or in the air."""

    def __init__(self, directory: Directory, mode: int) -> None:
        self.mode = mode
        self.up_to = 0
        self.running: Sync | None = None
        self.full: list[Chunk] = []
        self._directory = directory

    @property
    def relaxed(self) -> bool:
        return self.mode != SYNCED

    def sealed(self, chunks: list[Chunk]) -> None:
        """Takes chunks that got their last record, and whose commit is written."""
        if self.mode == INTERVAL:
            self.full += chunks
        else:
            for chunk in chunks:
                chunk.close(self._directory.disk)

    def begin(self, chunks: list[Chunk], last: int) -> Sync:
        """Begins a sync of all positions up to `last`."""
        self.running = sync = self._sync(chunks, last)
        return sync

    def slow_down(self, commit: Commit, chunks: list[Chunk]) -> None:
        """Has the commit sync too if the log is too far ahead of the disk."""
        if self.relaxed and (commit.last - self.up_to >= SKIP or len(self.full) >= UNSYNCED_CHUNKS):
            commit.overdue = self._sync(chunks, commit.last)

    def ended(self, sync: Sync) -> None:
        self.up_to = max(self.up_to, sync.last)

    def close_full(self, low: int) -> None:
        """Closes chunks whose sync is done, or not needed any more because all up to `low` is acked. Not to be called
        while a flush may use them."""
        needless = [chunk for chunk in self.full if chunk.last <= max(self.up_to, low)]
        for chunk in needless:
            self.full.remove(chunk)
            chunk.close(self._directory.disk)

    def _sync(self, chunks: list[Chunk], last: int) -> Sync:
        unsynced = [chunk for chunk in chunks if chunk.last > self.up_to and chunk.first <= last]
        return Sync(self._directory, unsynced, last)
