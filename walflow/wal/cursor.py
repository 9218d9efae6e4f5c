"""The acked positions, in memory and on disk.

On disk they are two slots of one page each, written in turn: if a crash damages one, the other is whole. The file
never grows, so acks can be stored on a full disk too. A chunk is deleted only when both slots are past it. So even if
a bad sector or a flipped bit takes one slot, the log never misses a file that was deleted correctly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from walflow.errors import DiskFull
from walflow.wal.chunk import Chunk
from walflow.wal.directory import Directory
from walflow.wal.format import SLOT, Slot, pack_slot


class Acked:
    """The acked positions: all up to `low`, and disjoint ranges above it that do not touch each other."""

    def __init__(self, low: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.low = low
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __repr__(self) -> str:
        return f"<Acked to {self.low}, {len(self._firsts)} ranges above>"

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._firsts, self._lasts, strict=True))

    @property
    def count(self) -> int:
        """The number of ranges above `low`."""
        return len(self._firsts)

    @property
    def above(self) -> int:
        """The number of acked positions above `low`."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def in_order(self) -> bool:
        """No position above `low` is acked."""
        return not self._firsts

    @property
    def last(self) -> int:
        """The highest acked position."""
        return self._lasts[-1] if self._lasts else self.low

    def add(self, first: int, last: int) -> bool:
        """Adds a range, both ends included, in any order and with any overlap. False: all of it was acked already."""
        first = max(first, self.low + 1)
        if last < first:
            return False
        if self._firsts and self._covers(first, last):
            return False
        left = bisect_left(self._lasts, first - 1)  # the first range that reaches up to it
        right = bisect_right(self._firsts, last + 1)  # behind the last one that begins in it
        if left < right:
            first = min(first, self._firsts[left])
            last = max(last, self._lasts[right - 1])
        if first == self.low + 1:  # then no range lies below it
            self.low = last
            del self._firsts[:right], self._lasts[:right]
        else:
            self._firsts[left:right] = [first]
            self._lasts[left:right] = [last]
        return True

    def covers(self, first: int, last: int) -> bool:
        return last <= self.low or (bool(self._firsts) and self._covers(max(first, self.low + 1), last))

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of the range that are not acked."""
        missing: list[tuple[int, int]] = []
        first = max(first, self.low + 1)
        at = bisect_left(self._lasts, first)
        while first <= last and at < len(self._firsts) and self._firsts[at] <= last:
            if first < self._firsts[at]:
                missing.append((first, self._firsts[at] - 1))
            first = self._lasts[at] + 1
            at += 1
        if first <= last:
            missing.append((first, last))
        return missing

    def _covers(self, first: int, last: int) -> bool:
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and last <= self._lasts[at]


class Flushing(Protocol):
    """Raises DiskFull or FailStop."""

    def flush(self) -> None: ...


class Checkpoint:
    """A cursor to be written, and the chunks that may be deleted after it. It has three phases, as a commit has."""

    def __init__(
        self,
        directory: Directory,
        fd: int,
        uuid: bytes,
        slot: Slot,
        *,
        both: bool,
        dropped: list[Chunk],
        spares: dict[Chunk, str],
        trail: Flushing | None,
        arrivals: Flushing | None,
        marks: Flushing | None,
        kept: Sequence[Chunk],
    ) -> None:
        self._directory = directory
        self._fd = fd
        self._uuid = uuid
        again = both or dropped or kept
        self._slots = [slot, slot._replace(generation=slot.generation + 1)] if again else [slot]
        self.dropped = dropped
        self.kept = kept  # that go over to the history once the cursor says that they are acked
        self.spares = spares  # those to be kept for reuse, and the name they get
        self._trail = trail
        self._arrivals = arrivals
        self._marks = marks
        self._gone = 0
        self.flushed = False

    def __repr__(self) -> str:
        return f"<Checkpoint at {self._slots[0].low}, {len(self.dropped)} chunks to go>"

    @property
    def generation(self) -> int:
        return self._slots[-1].generation

    def flush(self) -> None:
        """Raises DiskFull (flush it again later) or FailStop."""
        self._directory.check_place()  # files are deleted by their names
        self._directory.check_lock()
        if self._trail is not None:
            with suppress(DiskFull):  # acks are more urgent
                self._trail.flush()
        for slot in self._slots:
            self._directory.write("cursor", self._fd, [pack_slot(self._uuid, slot)], slot.generation % 2 * SLOT)
            self._directory.sync("cursor", self._fd)
        if self._arrivals is not None:
            with suppress(DiskFull):  # space is more urgent: what is deleted now may come again after a crash
                self._arrivals.flush()
        while self._gone < len(self.dropped):
            self._drop(self.dropped[self._gone])
            self._gone += 1
        if self.dropped:
            self._directory.sync_names()
        if self._marks is not None:
            with suppress(DiskFull):  # the next checkpoint may find room; until then a crash brings repeats
                self._marks.flush()
        self.flushed = True

    def _drop(self, chunk: Chunk) -> None:
        if chunk in self.spares:
            try:
                self._directory.rename(chunk.name, self.spares[chunk])
                return
            except DiskFull:  # a new name may need a block of the directory
                del self.spares[chunk]
        self._directory.unlink(chunk.name)


class CursorFile:
    """The cursor of an open log. `running`: the checkpoint that was begun and has not ended.
    There is one at a time."""

    def __init__(self, directory: Directory, fd: int, uuid: bytes, generation: int) -> None:
        self.running: Checkpoint | None = None
        self._directory = directory
        self._fd = fd
        self._uuid = uuid
        self._generation = generation
        self._said: Slot | None = None  # in the last checkpoint; its generation does not count

    def checkpoint(
        self,
        slot: Slot,
        dropped: list[Chunk],
        spares: dict[Chunk, str],
        trail: Flushing | None = None,
        arrivals: Flushing | None = None,
        marks: Flushing | None = None,
        kept: Sequence[Chunk] = (),
        *,
        force: bool,
    ) -> Checkpoint | None:
        """Begins a checkpoint. None: the cursor says all of it already, and no chunk is to be deleted. `trail`: what
        is known of events that the cursor says are acked, to be stored before it says so. `arrivals`:
        what the log has of logs upstream, to be stored before a chunk is deleted. `marks`: what lanes have acked
        beyond the cursor, to be stored once it is."""
        saves = trail is not None or arrivals is not None or marks is not None
        if not (force or dropped or kept or saves) and slot == self._said:
            return None
        self._said = slot
        self.running = checkpoint = Checkpoint(
            self._directory,
            self._fd,
            self._uuid,
            slot._replace(generation=self._generation + 1),
            both=force,
            dropped=dropped,
            spares=spares,
            trail=trail,
            arrivals=arrivals,
            marks=marks,
            kept=kept,
        )
        self._generation = checkpoint.generation
        return checkpoint

    def close(self) -> None:
        self._directory.disk.close(self._fd)
