"""Walks from record to record through a log's chunks, acked ones too, and verifies each."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar, NamedTuple

from walflow.wal.chunk import Chunk, Pages
from walflow.wal.directory import Directory
from walflow.wal.format import Record
from walflow.wal.quarantine import Gap
from walflow.wal.walk import NEVER, looks

Read = Callable[[int], None]  # so many more bytes have been looked at


def unreported(count: int) -> None:
    """Ignores the progress."""


class CountedRecords(Pages):
    """Reports how far it has read, counting each byte once. Many of them may be open for long, one of each replay."""

    window_bytes: ClassVar[int] = 64 << 10

    def __init__(self, directory: Directory, name: str, fd: int, limit: int, count: Read) -> None:
        super().__init__(directory, name, fd, limit)
        self._count = count
        self._seen = 0

    def read(self, offset: int, size: int) -> bytes:
        if offset + size > self._seen:
            self._count(offset + size - self._seen)
            self._seen = offset + size
        return super().read(offset, size)


class RecordAt(NamedTuple):
    """A record, or a part that cannot be read, and the bytes of the file that contain it."""

    file: str
    offset: int
    size: int
    found: Record | Gap

    @property
    def first(self) -> int:
        return self.found.first if isinstance(self.found, Gap) else self.found.position

    @property
    def last(self) -> int:
        return self.found.last if isinstance(self.found, Gap) else self.found.position + self.found.count - 1


def walk(
    directory: Directory, chunks: Sequence[Chunk], first: int, last: int, read: Read = unreported
) -> Iterator[RecordAt]:
    """All that hold a position from `first` to `last`, in order, from where the first chunk begins."""
    expected = max(first, chunks[0].first) if chunks else last + 1
    for chunk, follower in zip_longest(chunks, chunks[1:]):
        if chunk.last < expected:
            continue
        if chunk.first > last:
            break
        if chunk.wanted > expected:
            yield _nowhere(expected, chunk.wanted - 1)
        expected = max(expected, chunk.first)
        for place in _of(directory, chunk, follower, read):
            if place.first > last:
                return
            if place.last >= expected:
                yield place
                expected = place.last + 1
        # A tail's last position is what was found; any other's is what its follower says.
        expected = max(expected, chunk.last + 1)


def _nowhere(first: int, last: int) -> RecordAt:
    return RecordAt("", 0, 0, Gap(first, last, "", 0, 0, "no chunk holds them"))


def _of(directory: Directory, chunk: Chunk, follower: Chunk | None, read: Read) -> Iterator[RecordAt]:
    fd = open_chunk(directory, chunk)
    if fd is None:
        yield RecordAt(chunk.name, 0, 0, Gap(chunk.first, chunk.last, chunk.name, 0, 0, "cannot be opened"))
        return
    try:
        alone = follower is not None and follower.before != chunk.first
        yield from _through(CountedRecords(directory, chunk.name, fd, chunk.synced, read), chunk, alone=alone)
    finally:
        directory.disk.close(fd)


def _through(pages: Pages, chunk: Chunk, *, alone: bool) -> Iterator[RecordAt]:
    """`alone`: the chunk behind it is missing, and with it all that is not found here."""
    for offset, first, found in looks(pages, chunk):
        size = found.after - offset
        if found.record is not None:
            yield RecordAt(chunk.name, offset, size, found.record)
        elif found.ends and alone:
            yield _nowhere(first, chunk.last)
        else:
            yield _corrupt(pages, chunk, offset, size, first, found.last)


def _corrupt(pages: Pages, chunk: Chunk, offset: int, size: int, first: int, last: int) -> RecordAt:
    reason = "the disk cannot read them" if pages.unreadable(offset, size) else "corrupt"
    return RecordAt(chunk.name, offset, size, Gap(first, last, chunk.name, offset, size, reason))


def outlines(directory: Directory, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
    """First and last position and size of each record, by its header alone."""
    fd = open_chunk(directory, chunk)
    if fd is None:
        return
    try:
        pages = Pages(directory, chunk.name, fd, chunk.synced)
        for offset, first, found in looks(pages, chunk, NEVER):
            if found.header is not None:
                yield first, found.last, found.after - offset
    finally:
        directory.disk.close(fd)


def open_chunk(directory: Directory, chunk: Chunk) -> int | None:
    try:
        return directory.disk.open(directory.file(chunk.name))
    except OSError:
        return None
