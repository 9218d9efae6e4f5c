"""Reads durable records in order and verifies each. It continues after records that cannot be read, and reports them in
`gaps`.

To find a position in a chunk, the reader goes from header to header from the chunk's beginning. It does so once. After
that, `_offset` is always the beginning of the record at `_at`, also while the cache makes reading from disk
unnecessary.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from walflow.disk import Disk
from walflow.errors import DiskFull
from walflow.wal.chunk import WINDOW, Chunk, Pages, body_at, header_at, resync
from walflow.wal.format import CHUNK_START, Record
from walflow.wal.quarantine import Gap

if TYPE_CHECKING:
    from walflow.wal.log import Log


FETCHED: Final = 1 << 20  # bytes, read at a time by `Fetch`


class FileSpan(NamedTuple):
    """`size` bytes of a file, from `offset` on."""

    path: str
    offset: int
    size: int


class Fetch(NamedTuple):
    """Brings what the next read needs into the page cache, so that the read does not wait for the disk. `run` is for any
    thread: it has descriptors of its own. It does not judge what it reads, and raises nothing: the read that
    follows meets what is wrong."""

    disk: Disk
    spans: list[FileSpan]

    def run(self) -> None:
        for path, offset, size in self.spans:
            try:
                fd = self.disk.open(path)
            except OSError:
                return
            try:
                for at in range(offset, offset + size, FETCHED):
                    self.disk.read(fd, min(FETCHED, offset + size - at), at)
            except OSError:
                return
            finally:
                self.disk.close(fd)


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
        self._pages = Pages(log.disk, -1, 0)
        self._fd = -1

    def __repr__(self) -> str:
        return f"<Reader at {self.position} of {self._log!r}>"

    def read(self, max_bytes: int) -> list[Record]:
        """At least one record if any is durable, then no more after `max_bytes`. Records whose events are all acked are
        left out; a record that is partly acked comes whole. Raises DiskFull if no file can be opened now (read again
        later), and FailStop if a file cannot be opened for another reason: then no event is given up."""
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
                except DiskFull:
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

    def cold(self, max_bytes: int) -> Fetch | None:
        """What `read` would wait for. None: nothing, as far as the system says, or it cannot be known now."""
        # twice: `max_bytes` counts no headers, and small events have as many bytes of those
        disk, spans = self._log.disk, self._spans(2 * max_bytes + WINDOW)
        try:
            if all(self._is_cached(disk, span) for span in spans):
                return None
        except OSError:  # `read` meets it, and says what it is
            return None
        return Fetch(disk, spans)

    def close(self) -> None:
        if self._fd >= 0:
            self._log.disk.close(self._fd)
        self._fd = -1
        self._open = self._chunk = None

    def _is_cached(self, disk: Disk, span: FileSpan) -> bool:
        if self._open is not None and self._fd >= 0 and span.path == self._log.directory.file(self._open.name):
            return disk.cached(self._fd, span.size, span.offset)
        fd = disk.open(span.path)
        try:
            return disk.cached(fd, span.size, span.offset)
        finally:
            disk.close(fd)

    def _spans(self, most: int) -> list[FileSpan]:
        """Where the next records lie, about: the whole chunk where a reader has to go through it from its beginning."""
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
        header = header_at(pages, chunk.seed, offset)
        if header is None or header.position != self._at:
            self._skip(chunk, pages)
            return None
        self._offset = offset + header.size
        self._at = header.last + 1
        if header.last < self.position:
            return None
        record = body_at(pages, chunk.seed, offset, header)
        if record is None:
            self._lost(header.last, chunk, pages, offset)
        return record

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
            self._lost(min(wanted - 1, log.durable), None, None, 0)
        if wanted <= self.position < first:
            self.position = first
        if self.position <= log.durable:
            self._chunk, self._offset, self._at = log.chunks[at], CHUNK_START, first

    def _skip(self, chunk: Chunk, pages: Pages) -> None:
        """Skips damage: there is no sound header where the next record should be. Goes to the next sound one in this
        chunk, or to its end."""
        offset = self._offset
        found = resync(pages, chunk.seed, offset, self._at)
        if found is None:
            self._offset, self._at = pages.limit, min(chunk.last, self._log.durable) + 1
        else:
            self._offset, self._at = found[0], found[1].position
        self._lost(self._at - 1, chunk, pages, offset)

    def _lost(self, last: int, chunk: Chunk | None, pages: Pages | None, offset: int) -> None:
        """Reports positions from `position` to `last` as lost; this reader does not need earlier ones."""
        if last < self.position:
            return
        if chunk is None or pages is None:
            gap = Gap(self.position, last, "", 0, 0, "no chunk holds them")
        else:
            reason = "the disk cannot read them" if pages.unreadable(offset, self._offset - offset) else "corrupt"
            gap = Gap(self.position, last, chunk.name, offset, self._offset - offset, reason)
        self.position = last + 1
        if self._log.lose(gap, pages):
            self.gaps.append(gap)

    def _pages_of(self, chunk: Chunk) -> Pages:
        if self._open is not chunk:
            if self._fd >= 0:
                self._log.disk.close(self._fd)
            self._fd, self._open = -1, None
            self._fd = self._log.directory.open_to_read(chunk.name)
            self._pages = Pages(self._log.disk, self._fd, 0)
            self._open = chunk
        # Never beyond it, not even to remember it for later: it is just being written.
        self._pages.limit = chunk.synced if self._fd >= 0 else 0
        return self._pages
