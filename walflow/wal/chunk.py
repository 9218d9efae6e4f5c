"""A chunk: one file of the log. It has its header twice, and then records, each at a multiple of 8 bytes.

A file does not contain its own end. The header of the next chunk does. The end of the last chunk is known to the log,
or found by reading. After the end there may be zeros (preallocated) or records of an older chunk (recycled). The seed
of the checksums tells them apart.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from walflow.disk import Disk
from walflow.errors import DiskFull, ReadFailed
from walflow.wal.directory import Directory
from walflow.wal.format import (
    BEGINS,
    CHUNK_START,
    NO_STAMP,
    RELAXED,
    ChunkHeader,
    chunk_name,
    chunk_seed,
)

WINDOW: Final = 256 << 10  # read at a time
PAGE: Final = 4096
LESS: Final = 4  # so many times less is reserved if the disk has no room
MOST_BAD: Final = 4  # pages of one read: with more, the disk fails, and not a sector


class Chunk:
    """`end` is where the next record goes. `synced` is how far the chunk may be read. `capacity` is what the budget
    has been charged for it. `fd` is the writer's, open while there is something to write; readers have their own."""

    __slots__ = (
        "_step",
        "before",
        "begins",
        "capacity",
        "commit",
        "end",
        "fd",
        "first",
        "last",
        "mended",
        "name",
        "named",
        "relaxed",
        "reserved",
        "salt",
        "seed",
        "since_ns",
        "skipped",
        "spare",
        "synced",
        "until_ns",
    )

    def __init__(self, uuid: bytes, header: ChunkHeader, capacity: int) -> None:
        self.first = header.first
        self.commit = header.commit
        self.salt = header.salt
        self.begins = header.flags & BEGINS
        self.relaxed = header.flags & RELAXED
        self.skipped = header.skipped
        self.before = header.before_first
        self.seed = chunk_seed(uuid, header.first, header.salt)
        self.name = chunk_name(header.first)
        self.last = header.first - 1
        self.since_ns = NO_STAMP  # of its first record, if it is known
        self.until_ns = NO_STAMP  # of its last one, once it has all and if that is known
        self.end = CHUNK_START
        self.synced = 0
        self.capacity = capacity
        self.fd: int | None = None
        self.spare: str | None = None  # the file it will be made of
        self.reserved = 0  # bytes that the disk has for it, where they are preallocated
        self._step = capacity  # bytes to reserve at a time
        self.named = False  # its name is on disk too
        self.mended: bytes | None = None  # its header, where the file has no sound one

    def __repr__(self) -> str:
        return f"<Chunk {self.first}..{self.last}, {self.end} of {self.capacity} bytes>"

    def create(self, directory: Directory) -> int:
        """Makes the file, from a spare or new. May be called again after DiskFull."""
        if self.fd is None:
            directory.check_place()
        if self.fd is None and self.spare is not None:
            self.fd = directory.open(self.spare)
        if self.fd is None:
            self.fd = directory.create(self.name)
        if self.spare is not None:
            directory.rename(self.spare, self.name)
            self.spare = None
            self.reserved = directory.disk.stat(self.fd).size
            if self.capacity == self.end:  # sealed already: the budget was given back what lies behind
                self.cut(directory, self.capacity)
        return self.fd

    def reserve(self, directory: Directory, fd: int, needed: int) -> None:
        """Room on the disk for all that the chunk may ever have. If the disk has less, for less, down to `needed`."""
        while True:
            wanted = min(self.capacity, max(needed, self.reserved + self._step))
            try:
                directory.allocate(self.name, fd, wanted)
            except DiskFull:
                if wanted == needed:
                    raise
                self._step //= LESS
            else:
                self.reserved = wanted
                self._step = max(self._step * LESS, PAGE)
                return

    def cut(self, directory: Directory, size: int) -> None:
        """Gives back what the file has behind `size`."""
        assert self.fd is not None
        directory.truncate(self.name, self.fd, size)
        self.reserved = min(self.reserved, size)

    @property
    def is_whole(self) -> bool:
        """All that it may have is reserved, so its file is as good as any spare."""
        return self.reserved >= self.capacity

    @property
    def wanted(self) -> int:
        """The position that follows the previous chunk. Positions between it and `first` belong to no event."""
        return self.first - self.skipped

    def close(self, disk: Disk) -> None:
        if self.fd is not None:
            disk.close(self.fd)
            self.fd = None


class Pages:
    """A window that slides over a file up to `limit`. A page that the disk cannot read counts as zeros, which no
    checksum accepts. So a bad sector stands in the way of the records on it alone. Before anything is given up that
    is not sound, `check` says whether it was read at all. `strict`: each page must be readable."""

    window_bytes: ClassVar[int] = WINDOW

    def __init__(self, directory: Directory, name: str, fd: int, limit: int, *, strict: bool = False) -> None:
        self._directory = directory
        self._disk = directory.disk
        self._name = name
        self._fd = fd
        self._base = 0
        self._ahead = self.window_bytes
        self.limit = limit
        self.window = b""
        self._strict = strict and not directory.gives_up
        self._unreadable: dict[int, OSError] = {}  # pages
        self._known: Mapping[
            int, OSError
        ] = {}  # pages that the disk failed to read just now: it is not asked for them

    def find(self, offset: int, size: int) -> int:
        """The place of the `size` bytes from `offset` in `window`; -1: not all of them are below the limit."""
        index = offset - self._base
        if index < 0 or index + size > len(self.window):
            self.window = self.read(offset, min(max(size, self._ahead), self.limit - offset))
            self._base = offset
            self._ahead = self.window_bytes
            index = 0
        return index if size <= len(self.window) - index else -1

    def take(self, offset: int, size: int) -> bytes:
        """Returns the bytes; fewer only at the limit. A large piece is read directly, and so not copied."""
        index = offset - self._base
        if index < 0 or index + size > len(self.window):
            if size >= self.window_bytes // 4:
                self._ahead = PAGE  # the next record is likely as large: of it, only the header is wanted here
                return self.read(offset, min(size, self.limit - offset))
            index = max(self.find(offset, size), 0)
        return self.window[index : index + size]

    def read(self, offset: int, size: int) -> bytes:
        """Raises ReadFailed only if hardly anything can be read."""
        if size <= 0:
            return b""
        end = offset + size
        if not _within(self._known, offset, end):
            try:
                data = self._disk.read(self._fd, size, offset)
            except OSError:
                pass
            else:
                for page in _within(self._unreadable, offset, end):
                    del self._unreadable[page]
                return data
        starts = [offset, *range(offset + PAGE & -PAGE, end, PAGE)]  # the file's pages, not the window's
        bad: list[int] = []
        return b"".join([self._page(at, min(at + PAGE & -PAGE, end) - at, bad) for at in starts])

    def _page(self, offset: int, size: int, bad: list[int]) -> bytes:
        page = offset // PAGE
        error = self._known.get(page)
        if error is None:
            try:
                data = self._disk.read(self._fd, size, offset)
            except OSError as failed:
                error = failed
            else:
                self._unreadable.pop(page, None)
                return data
        self._unreadable[page] = error
        bad.append(page)
        if self._strict or (len(bad) > MOST_BAD and not self._directory.gives_up):
            raise self._failed(page, error) from error
        if self._directory.gives_up:
            self._directory.given_up.add(self._name)
        return bytes(size)

    def unreadable(self, offset: int, size: int) -> bool:
        """Whether the disk failed to read a page with any of these bytes."""
        return bool(_within(self._unreadable, offset, offset + size))

    def check(self, offset: int, size: int) -> None:
        """Raises ReadFailed if any of these bytes was not read and is not given up.
        The next read asks the disk again."""
        bad = _within(self._unreadable, offset, offset + size)
        if bad and not self._directory.gives_up:
            error = self._unreadable[bad[0]]
            raise self._failed(bad[0], error) from error

    def avoid(self, pages: Mapping[int, OSError]) -> None:
        """Does not ask the disk for these, which it failed to read a moment ago: each attempt may take seconds."""
        self._known = pages

    def _failed(self, page: int, error: OSError) -> ReadFailed:
        self.window = b""  # it may have zeros in the place of what was not read
        self._unreadable.clear()
        return self._directory.cannot_read(self._name, page * PAGE, error)


def _within(pages: Mapping[int, OSError], offset: int, end: int) -> list[int]:
    """Those of them with a byte from `offset` up to `end`, in order."""
    if not pages or end <= offset:
        return []
    first, last = offset // PAGE, (end - 1) // PAGE
    return sorted(page for page in pages if first <= page <= last)
