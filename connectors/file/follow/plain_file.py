"""One open file that others append to. It blocks: for a thread."""

from typing import Final, NamedTuple, Self

from connectors.file.checksum import crc32c
from connectors.file.follow.files_found import Identity
from walflow import world
from walflow.files import Disk

HEAD_BYTES: Final = 1024
LAST_BYTES: Final = 64


class Head(NamedTuple):
    """The first bytes of a file, by which it is known again: its inode may be given to another file."""

    length: int = 0
    crc: int = 0

    def ends(self, data: bytes) -> bool:
        """Whether it may be the end of `data`. Bytes without a length are not known."""
        return not self.length or crc32c(data[-self.length :]) == self.crc


class Rewritten(Exception):
    """The bytes that were read are not there any more: the file was cut, or its inode is another file's now."""


class TooShort(Rewritten):
    """It ends at byte `length`, before the place to read on at."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


class Elsewhere(Exception):
    """The name leads to another file now."""


class GrowingFile:
    """`read` gives what follows `position`."""

    __slots__ = ("_disk", "_fd", "first", "head", "last", "position")

    def __init__(self, disk: Disk, fd: int, position: int, head: Head, last: bytes) -> None:
        self._disk = disk
        self._fd = fd
        self.position = position
        self.head = head
        self.first = b""  # those of `head`: after a cut they are here only
        self.last = last  # the bytes before `position`

    def __repr__(self) -> str:
        return f"<GrowingFile at {self.position}>"

    @classmethod
    def open(cls, path: str, identity: Identity, position: int, head: Head, before: Head) -> Self:
        """`before`: the bytes before `position`. Raises OSError, Elsewhere, and Rewritten where it does not begin
        with `head`, is shorter than `position`, or has other bytes before it."""
        disk = world.disk()
        fd = disk.open_to_read(path)
        try:
            found = disk.stat(fd)
            if not found.is_file or found.identity != identity:
                raise Elsewhere
            if found.size < position:
                raise Rewritten
            file = cls(disk, fd, position, head, b"")
            file.look_at_head()
            file.seek(position, before)
        except BaseException:
            disk.close(fd)
            raise
        return file

    def look_at_head(self) -> None:
        first = self._disk.read(self._fd, HEAD_BYTES, 0)
        length, crc = self.head
        if len(first) < length or crc32c(first[:length]) != crc:
            raise Rewritten
        self.first = first
        self.head = Head(len(first), crc32c(first))

    def seek(self, position: int, before: Head) -> None:
        """`before`: the bytes before `position` as they were read. Raises Rewritten where others are there now."""
        kept = min(LAST_BYTES, position)
        last = self._disk.read(self._fd, kept, position - kept)
        if len(last) < kept or not before.ends(last):
            raise Rewritten
        self.position = position
        self.last = last

    def ready(self) -> bool:
        return True

    def read(self, size: int) -> bytes:
        """Empty at the end. Raises Rewritten, also where the file has grown again since it was cut."""
        last = self.last
        data = self._disk.read(self._fd, len(last) + size, self.position - len(last))
        if not data.startswith(last):
            raise Rewritten
        if self.head.length < HEAD_BYTES:
            self.look_at_head()
        elif self._disk.read(self._fd, HEAD_BYTES, 0) != self.first:  # after `data`: it may be cut at any moment
            raise Rewritten
        if len(data) == len(last):
            return b""
        self.position += len(data) - len(last)
        self.last = data[-LAST_BYTES:]
        return data[len(last) :]

    def peek(self, size: int, offset: int) -> bytes:
        return self._disk.read(self._fd, size, offset)

    def size(self) -> int:
        return self._disk.stat(self._fd).size

    def close(self) -> None:
        self._disk.close(self._fd)
