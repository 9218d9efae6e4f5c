"""Reads durable records in order and verifies each. It continues after records that cannot be read, and reports them
in `gaps`.

To find a position in a chunk, the reader goes from header to header from the chunk's beginning. It does so once.
After that, `_offset` is always the beginning of the record at `_at`, also while the cache makes reading from disk
unnecessary.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from walflow.disk import Disk
from walflow.errors import DiskFull, ReadFailed
from walflow.wal.chunk import MOST_BAD, PAGE, WINDOW, Chunk, Pages
from walflow.wal.format import CHUNK_START, RECORD_START, Record
from walflow.wal.quarantine import Gap
from walflow.wal.walk import look

if TYPE_CHECKING:
    from walflow.wal.log import Log


FETCHED: Final = 1 << 20  # bytes, read at a time by `Fetch`


class FileSpan(NamedTuple):
    """`size` bytes of a file, from `offset` on."""

    path: str
    offset: int
    size: int


class Fetch:
    """Brings what the next read needs into the page cache, so that the read does not wait for the disk. `run` is for
    any thread: it has descriptors of its own. It does not judge what it reads, and raises nothing. `failed`: the
    pages that the disk could not read, by file, up to the first few."""

    def __init__(self, disk: Disk, spans: list[FileSpan]) -> None:
        self.spans = spans
        self.failed: dict[str, dict[int, OSError]] = {}
        self._disk = disk

    def run(self) -> None:
        for path, offset, size in self.spans:
            try:
                fd = self._disk.open(path)
            except OSError:  # the read that follows meets it
                return
            try:
                for at in range(offset, offset + size, FETCHED):
                    if not self._is_read(path, fd, min(FETCHED, offset + size - at), at):
                        return
            finally:
                self._disk.close(fd)

    def _is_read(self, path: str, fd: int, size: int, offset: int) -> bool:
        try:
            self._disk.read(fd, size, offset)
        except OSError:
            return self._is_read_in_part(self.failed.setdefault(path, {}), fd, size, offset)
        return True

    def _is_read_in_part(self, failed: dict[int, OSError], fd: int, size: int, offset: int) -> bool:
        for page in range(offset // PAGE, (offset + size - 1) // PAGE + 1):
            try:
                self._disk.read(fd, PAGE, page * PAGE)
            except OSError as error:
                failed[page] = error
                if len(failed) > MOST_BAD:
                    return False
        return True


class Reader:
    """`position`: the next position to read. A reader belongs to its log's owner and is closed with the log."""

    def __init__(self, log: "Log", position: int) -> None:
        self._log = log
        self.position = position
        self.gaps: list[Gap] = []
        self._chunk: Chunk | None = None
        self._offset = 0
        self._at = 0
        self._open: Chunk | None = None  # the chunk `_pages` and `_fd` belong to
        self._pages = Pages(log.directory, "", -1, 0)
        self._fd = -1
        self._failed: Mapping[str, Mapping[int, OSError]] = {}  # by file: pages that the disk could not read just now

    def __repr__(self) -> str:
        return f"<Reader at {self.position} of {self._log!r}>"

    def read(self, max_bytes: int) -> list[Record]:
        """At least one record if any is durable, then no more after `max_bytes`. Records whose events are all acked
        are left out; a record that is partly acked comes whole. Raises DiskFull if no file can be opened now (read
        again later), ReadFailed if the disk fails to read the next record (the same), and FailStop if a file cannot
        be opened for another reason: then no event is given up."""
        log = self._log
        acked = log.acked
        records: list[Record] = []
        size = 0
        while size < max_bytes and self.position <= log.durable:
            entry = log.cache.take(self.position)
            if entry is not None:
                record, self._chunk, self._offset = entry
                self._at = record.position + record.count
            else:
                try:
                    found = self._from_disk()
                except (DiskFull, ReadFailed):
                    if records:  # they have been passed: who is not given them now is never given them
                        return records
                    raise
                if found is None:
                    continue
                record = found
            self.position = after = record.position + record.count
            if acked.covers(record.position, after - 1):
                continue
            records.append(record)
            size += len(record.tag) + len(record.payload)
        return records

    def cold(self, max_bytes: int, *, failing: bool = False) -> Fetch | None:
        """What `read` would wait for. None: nothing, as far as the system says, or it cannot be known now. `failing`:
        the last read failed, so the disk is asked for all of it."""
        # twice: `max_bytes` counts no headers, and small events have as many bytes of those
        disk, spans = self._log.disk, self._spans(2 * max_bytes + WINDOW)
        try:
            if not failing and all(self._is_cached(disk, span) for span in spans):
                return None
        except OSError:  # `read` meets it, and says what it is
            return None
        return Fetch(disk, spans)

    def fetched(self, fetch: Fetch) -> None:
        """Call it after its `run`, before the next read: what failed then is not asked for again,
        each time for seconds."""
        self._failed = fetch.failed

    def close(self) -> None:
        if self._fd >= 0:
            self._log.disk.close(self._fd)
        self._fd = -1
        self._open = self._chunk = None
        self._log.has_closed(self)

    def _is_cached(self, disk: Disk, span: FileSpan) -> bool:
        if self._open is not None and self._fd >= 0 and span.path == self._log.directory.file(self._open.name):
            return disk.cached(self._fd, span.size, span.offset)
        fd = disk.open(span.path)
        try:
            return disk.cached(fd, span.size, span.offset)
        finally:
            disk.close(fd)

    def _spans(self, most: int) -> list[FileSpan]:
        """Where the next records lie, about: the whole chunk where a reader has to go through it from its
        beginning."""
        log, position = self._log, max(self.position, self._log.low + 1)
        if position > log.durable or position in log.cache:
            return []
        spans: list[FileSpan] = []
        at = max(bisect_right(log.chunks, position, key=lambda chunk: chunk.first) - 1, 0)
        for chunk in log.chunks[at:]:
            if most <= 0:
                break
            if chunk.last < position:
                continue
            known = chunk is self._chunk and self._at <= position
            offset = self._offset if known else CHUNK_START
            seeks = position > (self._at if known else chunk.first)
            size = chunk.synced - offset if seeks else min(most, chunk.synced - offset)
            if size > 0:
                spans.append(FileSpan(log.directory.file(chunk.name), offset, size))
                most -= size
        return spans

    def _from_disk(self) -> Record | None:
        """The record with `position`; None: the reader has moved, look again."""
        chunk = self._chunk
        if chunk is None or self.position <= self._log.low or not chunk.first <= self.position <= chunk.last:
            self._seek()
            return None
        pages, offset = self._pages_of(chunk), self._offset
        last = min(chunk.last, self._log.durable)
        found = look(pages, chunk.seed, offset, self._at, last, self.position, self._doubt)
        if found.record is None and found.last >= self.position:
            self._lost(found.last, chunk, pages, offset, found.after)
        self._offset, self._at = found.after, found.last + 1
        return found.record

    def _doubt(self, pages: Pages, offset: int) -> None:
        """There is no sound header where the next record should be."""
        if self._at >= self.position and not self._log.acked.covers(self._at, self._at):
            pages.check(offset, RECORD_START)  # at once: behind it there may be much that the disk cannot read now

    def _seek(self) -> None:
        """Goes to the beginning of the chunk with `position`, or of the next one."""
        log = self._log
        self.position = max(self.position, log.low + 1)
        at = max(bisect_right(log.chunks, self.position, key=lambda chunk: chunk.first) - 1, 0)
        while at < len(log.chunks) and log.chunks[at].last < self.position:
            at += 1
        first = log.chunks[at].first if at < len(log.chunks) else log.durable + 1
        wanted = log.chunks[at].wanted if at < len(log.chunks) else first
        if wanted > self.position:
            self._lost(min(wanted - 1, log.durable), None, None, 0, 0)
        if wanted <= self.position < first:
            self.position = first
        if self.position <= log.durable:
            self._chunk, self._offset, self._at = log.chunks[at], CHUNK_START, first

    def _lost(self, last: int, chunk: Chunk | None, pages: Pages | None, offset: int, after: int) -> None:
        """Reports positions from `position` to `last` as lost; this reader does not need earlier ones. Raises
        ReadFailed, if they may be sound: then nothing has changed."""
        if last < self.position:
            return
        if chunk is None or pages is None:
            gap = Gap(self.position, last, "", 0, 0, "no chunk holds them")
        else:
            if not self._log.acked.covers(self.position, last):
                pages.check(offset, after - offset)
            reason = "the disk cannot read them" if pages.unreadable(offset, after - offset) else "corrupt"
            gap = Gap(self.position, last, chunk.name, offset, after - offset, reason)
        lost = self._log.lose(gap, pages)
        self.position = last + 1
        if lost:
            self.gaps.append(gap)

    def _pages_of(self, chunk: Chunk) -> Pages:
        if self._open is not chunk:
            if self._fd >= 0:
                self._log.disk.close(self._fd)
            self._fd, self._open = -1, None
            self._fd = self._log.directory.open_to_read(chunk.name)
            self._pages = Pages(self._log.directory, chunk.name, self._fd, 0)
            self._open = chunk
        self._pages.avoid(self._failed.get(self._log.directory.file(chunk.name), {}) if self._failed else {})
        # Never beyond it, not even to remember it for later: it is just being written.
        self._pages.limit = chunk.synced if self._fd >= 0 else 0
        return self._pages
