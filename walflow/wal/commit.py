"""A commit: the records that one sync covers.

The log's owner takes it from the log, any thread flushes it, and the owner hands it back: `log.commit()`,
`commit.flush()`, `log.committed(commit)`. Only the flush blocks, and it uses only descriptors and bytes.

Commit k + 1 is not written before the flush of commit k has returned. From this, recovery proves what was durable: a
damaged record of commit k is a torn write only if no record of a later commit exists.

A relaxed log (`sync` is "interval" or "never") acks what is written. Its flush does not sync; a `Sync` comes later or
not at all. Then a record of a later commit proves that commit k was acked, but not that it was ever on disk.
"""

from contextlib import suppress
from typing import Final

from walflow.errors import DiskFull
from walflow.wal.chunk import Chunk
from walflow.wal.directory import Directory
from walflow.wal.format import CHECKSUM, LAST, RECORD_HEADER, RECORD_START, Record, crc
from walflow.world import monotonic

COMMIT_BYTES: Final = 2 << 20  # a commit takes no further record from here on

Entry = tuple[Record, Chunk, int]  # and where it ends


class CommitPart:
    """The part of a commit for one chunk, from `offset`.
    `head` is the index of the last record's header in `slices`."""

    __slots__ = ("chunk", "head", "offset", "slices")

    def __init__(self, chunk: Chunk, offset: int, slices: list[bytes]) -> None:
        self.chunk = chunk
        self.offset = offset
        self.slices = slices
        self.head = 0


class Sync:
    """The data that a relaxed log has written and not synced, up to position `last`. It has three phases, as a commit
    has. The owner closes none of its chunks meanwhile."""

    def __init__(self, directory: Directory, chunks: list[Chunk], last: int) -> None:
        self._directory = directory
        self._chunks = chunks
        self.last = last
        self.seconds = 0.0
        self.flushed = False

    def __repr__(self) -> str:
        return f"<Sync of {len(self._chunks)} chunks up to {self.last}>"

    def flush(self) -> None:
        """Raises DiskFull (flush it again later) or FailStop."""
        started = monotonic()
        for chunk in self._chunks:
            if chunk.fd is not None:
                self._directory.sync(chunk.name, chunk.fd)
            else:
                self._sync_closed(chunk)
        sync_names(self._directory, self._chunks)
        self.seconds = monotonic() - started
        self.flushed = True

    def _sync_closed(self, chunk: Chunk) -> None:
        """Syncs a chunk that is closed already. The kernel syncs a file, not a descriptor, and reports a failed
        write-back only to the first caller."""
        fd = self._directory.open(chunk.name)
        try:
            self._directory.sync(chunk.name, fd)
        finally:
            self._directory.disk.close(fd)


def sync_names(directory: Directory, chunks: list[Chunk]) -> None:
    created = [chunk for chunk in chunks if not chunk.named]
    if created:
        directory.sync_names()
    for chunk in created:
        chunk.named = True


class Commit:
    """`refs` is what came with each append, `size` the bytes it writes, `seconds` how long the flush took."""

    def __init__(self, directory: Directory, number: int, *, preallocate: bool, relaxed: bool = False) -> None:
        self._directory = directory
        self._preallocate = preallocate
        self._relaxed = relaxed
        self.overdue: Sync | None = None  # a relaxed log that is too far ahead of the disk waits for it here
        self.number = number
        self.refs: list[object] = []
        self.size = 0
        self.seconds = 0.0
        self.last = 0  # position
        self.entries: list[Entry] = []
        self.parts: list[CommitPart] = []
        self.unneeded: list[str] = []  # spares that must make room for what is written here
        self.sealed: list[Chunk] = []  # chunks that got their last record, maybe in an earlier commit
        self.flushed = False

    def __repr__(self) -> str:
        return f"<Commit {self.number}, {len(self.refs)} records, {self.size} bytes>"

    def begin_part(self, chunk: Chunk) -> CommitPart:
        """Begins a part for records that continue at the end of a chunk."""
        part = CommitPart(chunk, chunk.end, [])
        self.parts.append(part)
        return part

    def begin_chunk(self, chunk: Chunk, header: bytes) -> None:
        self.parts.append(CommitPart(chunk, 0, [header]))

    def seal(self) -> None:
        """Marks the last record of the commit. Before, it was not known which one that is."""
        part = self.parts[-1]
        head = part.slices[part.head]
        *before, flags, tag_size, body_crc = RECORD_HEADER.unpack_from(head)
        fields = RECORD_HEADER.pack(*before, flags | LAST, tag_size, body_crc)
        part.slices[part.head] = fields + CHECKSUM.pack(crc(part.chunk.seed, fields)) + head[RECORD_START:]

    def flush(self) -> None:
        """Writes and syncs; in a relaxed log, only writes. Raises DiskFull (flush it again later: it writes to the
        same place) or FailStop. What it has written is where a start would look for it."""
        started = monotonic()
        self._make_room()
        for part in self.parts:
            fd = part.chunk.create(self._directory)
            if self._preallocate and part.chunk.reserved < part.chunk.end:
                part.chunk.reserve(self._directory, fd, part.offset + sum(map(len, part.slices)))
            try:
                self._directory.write(part.chunk.name, fd, part.slices, part.offset)
            except DiskFull:
                self._take_back(part, fd)
                raise
            if not self._relaxed:
                self._directory.sync(part.chunk.name, fd)
        if not self._relaxed:
            sync_names(self._directory, [part.chunk for part in self.parts])
        elif self.overdue is not None:
            self.overdue.flush()
        self._directory.check_place()
        self.seconds = monotonic() - started
        self.flushed = True

    def _take_back(self, part: CommitPart, fd: int) -> None:
        """What was written of a part needs room that is missing elsewhere."""
        with suppress(DiskFull):
            part.chunk.cut(self._directory, part.offset)
            self._directory.sync(part.chunk.name, fd)  # else a power cut gives it back, after a start did not find it

    def _make_room(self) -> None:
        """Makes room before the write, so that the budget is never exceeded."""
        while self.unneeded:
            self._directory.unlink(self.unneeded[-1])
            self.unneeded.pop()
        for chunk in self.sealed:
            if chunk.reserved > chunk.end and chunk.fd is not None and chunk.capacity == chunk.end:
                chunk.cut(self._directory, chunk.capacity)
                if not self._relaxed:  # else a power cut gives it back its size, beside the chunk that has its place
                    self._directory.sync(chunk.name, chunk.fd)
