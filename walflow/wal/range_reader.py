"""Reads a range of positions as the bytes that lie on disk, each record verified.

The owner of the log says which files hold the range and where the scan begins (`begin`). The scan may run on any
thread, because it uses only its own descriptor. What it found goes back to the owner. The owner remembers the places
that the scan has passed (`passed`), and has damaged records quarantined (`settle`):

    scan = reader.begin(first, end)                   the owner
    found = scan.next()                               any thread, one call at a time
    reader.passed(found) or reader.settle(found)      the owner; after a loss, before the next call of `next`

A chunk may be deleted or reused meanwhile only if all its events are acked. Its bytes then fail their checksums,
which are seeded with the chunk's salt, so they are never taken for the range's: `settle` raises Trimmed.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from walflow.errors import WalflowError
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.format import CHUNK_START, RECORD_PREFIX, RECORD_START
from walflow.wal.log import Log
from walflow.wal.quarantine import FOLDER, Gap
from walflow.wal.walk import NEVER, SoundRun, look, pass_sound

WINDOW: Final = 1 << 20
STEP: Final = 256 << 10
REPORT: Final = re.compile(r"\d{20}-\d{20}\.json")
PLACES: Final = 1 << 14  # remembered at most, about; a larger log remembers with larger steps


class Trimmed(WalflowError):
    """The chunk was deleted or reused while it was read, because all its events are acked."""


class RecordPlace(NamedTuple):
    """The place in a chunk of the record that begins at `position`."""

    position: int
    offset: int


class RecordSlice(NamedTuple):
    """Whole records with the positions `first` to `last`, both included, in order and without a gap."""

    chunk: Chunk
    seed: int
    data: bytes
    first: int
    last: int
    places: Sequence[RecordPlace]


class Loss(NamedTuple):
    """Positions `first` to `last` of the range, both included, that cannot be read. `gap` is the whole damaged part.
    `hole`: recovery skipped these positions and never assigned them."""

    first: int
    last: int
    gap: Gap
    chunk: Chunk | None
    pages: Pages | None
    hole: bool = False


class ChunkSpan(NamedTuple):
    """The part of a chunk for a scan: it may be read below `limit`, where the record of position `last` ends at the
    latest. The scan begins at `place`."""

    chunk: Chunk
    place: RecordPlace
    last: int
    limit: int


class RangeReader:
    """Belongs to the log's owner. `window`: bytes read at a time, and of a slice at most unless a single record has
    more; `step`: bytes between two places that are remembered."""

    def __init__(self, log: Log, window: int = WINDOW, step: int = STEP) -> None:
        self._log = log
        self._places: dict[Chunk, list[RecordPlace]] = {}
        self._window = window
        self._step = max(step, log.budget // PLACES)

    def __repr__(self) -> str:
        return f"<RangeReader of {self._log!r}, {sum(map(len, self._places.values()))} places>"

    def begin(self, first: int, end: int) -> "RangeScan":
        """A scan of positions from `first` up to, but not including, `end`; all of them must be durable. Close it."""
        end = min(end, self._log.durable + 1)
        return RangeScan(self._log, self._spans(first, end), first, end, self._window, self._empty(first, end))

    def spans(self, first: int, end: int) -> list[ChunkSpan]:
        """The parts of chunks that have the positions from `first` up to, but not including, `end`; all of them must
        be durable. Empty, if a position is in no chunk, or none is wanted.
        Nothing is read, so a record there may be damaged."""
        spans = self._spans(first, end)
        wanted = first
        for span in spans:
            if span.chunk.first > wanted:
                return []
            wanted = span.last + 1
        return spans if wanted >= end > first else []

    def _spans(self, first: int, end: int) -> list[ChunkSpan]:
        self._forget()
        return [
            ChunkSpan(chunk, self._before(chunk, first), min(chunk.last, self._log.durable), chunk.synced)
            for chunk in self._chunks(first, end)
        ]

    def passed(self, found: RecordSlice) -> None:
        for place in found.places:
            self.note(found.chunk, place)

    def note(self, chunk: Chunk, place: RecordPlace) -> None:
        """Remembers that a record begins there. Not every place is kept."""
        places = self._places.setdefault(chunk, [])
        at = bisect_right(places, place.position, key=_position)
        before = places[at - 1].offset if at else CHUNK_START
        after = places[at].offset if at < len(places) else place.offset + self._step
        if place.offset - before >= self._step and after - place.offset >= self._step:
            places.insert(at, place)

    def settle(self, loss: Loss) -> bool:
        """Quarantines and reports the damage, if that was not done before. False: nothing is lost, because no event
        was promised there. Raises Trimmed."""
        if loss.chunk is not None and loss.chunk not in self._log.chunks:
            raise Trimmed(f"positions {loss.first} to {loss.last} were committed and deleted while they were read")
        if loss.hole:
            return False
        return self._log.lose(loss.gap, loss.pages) or loss.chunk is None or self._was_told(loss)

    def _was_told(self, loss: Loss) -> bool:
        """Whether the loss was reported. Records that a recovery judged to be torn are acked and never reported."""
        return any(first <= loss.last and last >= loss.first for first, last in self._told())

    def reported(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of these positions that were reported as lost or skipped, now or by an earlier process."""
        found: list[tuple[int, int]] = []
        for low, high in self._told():
            low, high = max(low, first), min(high, last)
            if low <= high and (not found or high > found[-1][1]):
                found.append((max(low, found[-1][1] + 1) if found else low, high))
        return found

    def _told(self) -> list[tuple[int, int]]:
        """The ranges that were reported as lost, now or by an earlier process, in order of `first`."""
        disk, folder = self._log.disk, self._log.directory.file(FOLDER)
        reports = [name for name in disk.names(folder) if REPORT.fullmatch(name)] if self._has_quarantine() else []
        told = [(gap.first, gap.last) for gap in self._log.gaps]
        return sorted([*told, *((int(name[:20]), int(name[21:41])) for name in reports)])

    def _empty(self, first: int, end: int) -> list[tuple[int, int]]:
        """Position ranges that recovery skipped and never assigned."""
        log = self._log
        holes = [(chunk.wanted, chunk.first - 1) for chunk in log.chunks if chunk.skipped]
        if log.chunks:
            holes.append((log.chunks[-1].last + 1, log.durable))
        holes = [(low, last) for low, last in holes if low <= last and low < end and last >= first]
        return _without(holes, self._told()) if holes else []

    def behind(self, position: int) -> int:
        """The next position from there that was assigned to an event, or may have been."""
        for low, last in self._empty(position, position + 1):
            if low <= position <= last:
                return last + 1
        return position

    def _has_quarantine(self) -> bool:
        return FOLDER in self._log.disk.names(self._log.directory.path)

    def size(self, first: int, end: int) -> int:
        """About how many bytes the records of positions `first` up to `end` take. Reads nothing."""
        return sum(
            self._offset(chunk, min(end, chunk.last + 1)) - self._offset(chunk, max(first, chunk.first))
            for chunk in self._chunks(first, end)
        )

    def reach(self, first: int, end: int, size: int) -> int:
        """The largest position up to `end` that about `size` bytes from `first` on reach. Reads nothing."""
        for chunk in self._chunks(first, end):
            start = self._offset(chunk, max(first, chunk.first))
            stop = self._offset(chunk, min(end, chunk.last + 1))
            if stop - start > size:
                return min(end, self._at(chunk, start + size))
            size -= stop - start
        return end

    def _chunks(self, first: int, end: int) -> list[Chunk]:
        chunks = self._log.chunks
        at = max(bisect_right(chunks, first, key=_first) - 1, 0)
        found: list[Chunk] = []
        while at < len(chunks) and chunks[at].first < end:
            if chunks[at].last >= first and chunks[at].synced:
                found.append(chunks[at])
            at += 1
        return found

    def _before(self, chunk: Chunk, position: int) -> RecordPlace:
        places = self._places.get(chunk, [])
        at = bisect_right(places, position, key=_position)
        return places[at - 1] if at else RecordPlace(chunk.first, CHUNK_START)

    def _around(self, chunk: Chunk, at: int) -> tuple[RecordPlace, RecordPlace]:
        places = self._places.get(chunk, [])
        before = places[at - 1] if at else RecordPlace(chunk.first, CHUNK_START)
        after = places[at] if at < len(places) else RecordPlace(chunk.last + 1, chunk.end)
        return before, after

    def _offset(self, chunk: Chunk, position: int) -> int:
        at = bisect_right(self._places.get(chunk, []), position, key=_position)
        before, after = self._around(chunk, at)
        share = (position - before.position) / max(1, after.position - before.position)
        return before.offset + round(share * (after.offset - before.offset))

    def _at(self, chunk: Chunk, offset: int) -> int:
        at = bisect_right(self._places.get(chunk, []), offset, key=_offset)
        before, after = self._around(chunk, at)
        share = (offset - before.offset) / max(1, after.offset - before.offset)
        return before.position + int(share * (after.position - before.position))

    def _forget(self) -> None:
        if len(self._places) > len(self._log.chunks):
            self._places = {chunk: self._places[chunk] for chunk in self._log.chunks if chunk in self._places}


class RangeScan:
    """One call at a time, from any thread. `empty`: position ranges that were never assigned, in order."""

    def __init__(
        self, log: Log, spans: list[ChunkSpan], first: int, end: int, window: int, empty: list[tuple[int, int]]
    ) -> None:
        self._disk = log.disk
        self._directory = log.directory
        self._is_acked = log.acked.covers(first, end - 1)  # all of it: nothing can be lost any more
        self._window = window
        self._open_file = log.directory.open_to_read
        self._spans = spans[::-1]
        self._wanted = first
        self._end = end
        self._empty = empty
        self._place = RecordPlace(0, 0)
        self._fd = -1
        self._places: list[RecordPlace] = []  # passed since the last slice
        self._pages = Pages(log.directory, "", -1, 0)

    def __repr__(self) -> str:
        return f"<RangeScan at {self._wanted} to {self._end}>"

    def next(self) -> RecordSlice | Loss | None:
        """The next slice or loss; None: the scan is complete. Raises DiskFull if no file can be opened now,
        ReadFailed if the disk fails to read the next record, and FailStop if a file cannot be opened for another
        reason. Begin another scan then."""
        while self._wanted < self._end:
            if not self._spans:
                return self._missing(self._end - 1)
            span = self._spans[-1]
            if self._wanted > span.last:
                self._spans.pop()
                self.close()
            elif self._wanted < span.chunk.first:
                return self._missing(span.chunk.first - 1)
            elif self._fd < 0 and not self._open(span):
                return self._lost(span, self._wanted, span.last, 0, "its file is gone")
            elif (found := self._step(span)) is not None:
                return found
        return None

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
        self._fd = -1

    def _open(self, span: ChunkSpan) -> bool:
        self._fd = self._open_file(span.chunk.name)
        if self._fd < 0:
            return False
        self._pages = Pages(self._directory, span.chunk.name, self._fd, span.limit)
        self._places = []
        self._place = span.place
        return True

    def _step(self, span: ChunkSpan) -> RecordSlice | Loss | None:
        """Reads one window, or one record that is larger. None: it contained no wanted record."""
        offset = self._place.offset
        window = self._pages.read(offset, min(self._window, span.limit - offset))
        places, start, run = self._run(span, window)
        if run.cut and not run.behind:  # and wanted: by itself
            window = self._pages.read(offset, run.cut)
            places, start, run = self._run(span, window)
        if not run.behind:
            return self._damaged(span)
        self._place = RecordPlace(run.position, offset + run.behind)
        self._places += places
        if start is None:
            return None
        whole = start.offset == offset and run.behind == len(window)
        data = window if whole else window[start.offset - offset : run.behind]
        self._wanted = run.position
        places, self._places = self._places, []
        return RecordSlice(span.chunk, span.chunk.seed, data, start.position, self._wanted - 1, places)

    def _run(self, span: ChunkSpan, window: bytes) -> tuple[list[RecordPlace], RecordPlace | None, SoundRun]:
        """The places of some of the sound records in the window, `STEP` bytes apart; the place of the first one that
        is wanted, if any; and where they end. `window`: the chunk's bytes from the place on."""
        position, offset = self._place
        index = 0
        places: list[RecordPlace] = []
        start: RecordPlace | None = None
        while True:
            run = pass_sound(
                window,
                span.chunk.seed,
                position,
                index,
                stop=index + STEP,
                end=self._end,
                limit=span.limit - offset,
                wanted=self._wanted,
                mark=NEVER if start is not None else self._wanted,
            )
            if run.marked >= 0:
                start = RecordPlace(RECORD_PREFIX.unpack_from(window, run.marked)[2], offset + run.marked)
            if run.behind == index:
                return places, start, run
            places.append(RecordPlace(position, offset + index))
            index, position = run.behind, run.position

    def _damaged(self, span: ChunkSpan) -> Loss | None:
        """The damage at the place. None: the damaged part is not wanted, or the disk has read it now."""
        position, offset = self._place
        self._pages.window = b""  # what lies there now counts: the chunk may have been reused
        found = look(self._pages, span.chunk.seed, offset, position, span.last, self._wanted, self._doubt)
        if found.record is not None:
            return None
        after, last = found.after, found.last
        if last >= self._wanted:
            self._check(offset, after - offset)
        self._place = RecordPlace(last + 1, after)
        if last < self._wanted:
            return None
        reason = "the disk cannot read them" if self._pages.unreadable(offset, after - offset) else "corrupt"
        return self._lost(span, position, last, offset, reason)

    def _doubt(self, _pages: Pages, offset: int) -> None:
        """There is no sound header where the next record should be."""
        if self._place.position >= self._wanted:
            self._check(offset, RECORD_START)  # at once: behind it there may be much that the disk cannot read now

    def _check(self, offset: int, size: int) -> None:
        if not self._is_acked:
            self._pages.check(offset, size)

    def _lost(self, span: ChunkSpan, first: int, last: int, offset: int, reason: str) -> Loss:
        size = self._place.offset - offset if offset else 0
        gap = Gap(first, last, span.chunk.name, offset, size, reason)
        pages = self._pages if self._fd >= 0 else None
        loss = Loss(max(first, self._wanted), min(last, self._end - 1), gap, span.chunk, pages)
        self._wanted = last + 1
        return loss

    def _missing(self, last: int) -> Loss:
        """Positions that no chunk contains. Lost ranges and ranges that were never assigned come one by one."""
        first, last, hole = self._wanted, min(last, self._end - 1), False
        for low, high in self._empty:
            if low <= first <= high:
                last, hole = min(last, high), True
            elif first < low <= last:
                last = low - 1
        self._wanted = last + 1
        return Loss(first, last, Gap(first, last, "", 0, 0, "no chunk holds them"), None, None, hole)


def _without(holes: list[tuple[int, int]], told: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Both in order; what is told may overlap."""
    left: list[tuple[int, int]] = []
    for low, high in holes:
        for first, last in told:
            if low <= last and first <= high:
                left.append((low, first - 1))
                low = last + 1
        left.append((low, high))
    return [(low, high) for low, high in left if low <= high]


def _position(place: RecordPlace) -> int:
    return place.position


def _offset(place: RecordPlace) -> int:
    return place.offset


def _first(chunk: Chunk) -> int:
    return chunk.first
