"""One compressed file, read as what is in it. It blocks: for a thread.

Positions count inflated bytes. To get to one, all before it is inflated again, in steps: other files have their turn
between two. So as much memory is needed as the format needs, however large the file is.
"""

import os
import re
from typing import Final, Self

from connectors.file.checksum import crc32c
from connectors.file.file_source import ALGORITHMS
from connectors.file.follow.files_found import Identity
from connectors.file.follow.plain_file import HEAD_BYTES, LAST_BYTES, Elsewhere, Head, Rewritten, TooShort
from walflow import world
from walflow.files import FILE_WINDOW_BITS, Corrupt, Disk, Members

PACKED_BYTES: Final = 64 << 10  # read at a time
STEP_BYTES: Final = 4 << 20  # inflated at a time on the way to a position


def may_be_compressed(pattern: str) -> bool:
    """Whether the pattern matches names of compressed files."""
    ending = re.split(r"[*?\[\]]", os.path.basename(pattern))[-1]
    return any(ending.endswith(suffix) or suffix.endswith(ending) for suffix in ALGORITHMS)


def is_compressed(path: str) -> bool:
    return os.path.splitext(path)[1] in ALGORITHMS


class InflatedFile:
    """`first`: its first bytes, by which it is known. `last`: those before `position`. `damage`: why there is no
    more, "" where it is at its end."""

    __slots__ = (
        "_algorithm",
        "_at",
        "_disk",
        "_fd",
        "_members",
        "_rest",
        "_tail",
        "_to",
        "damage",
        "first",
        "last",
        "position",
    )

    def __init__(self, disk: Disk, fd: int, algorithm: str) -> None:
        self._disk = disk
        self._fd = fd
        self._algorithm = algorithm
        self._tail = Head()
        self._to = 0  # the position that was asked for
        self._members = Members(algorithm, FILE_WINDOW_BITS)
        self._at = 0  # of what is on disk
        self._rest = b""
        self.position = 0
        self.last = b""
        self.damage = ""
        while len(self._rest) < HEAD_BYTES and (more := self._more()):
            self._rest += more
        self.first = self._rest[:HEAD_BYTES]

    def __repr__(self) -> str:
        return f"<InflatedFile at {self.position}>"

    @classmethod
    def open(cls, path: str, identity: Identity, position: int, head: Head, tail: Head) -> Self:
        """`tail`: the bytes before `position`.
        Raises OSError, Elsewhere, and Rewritten where it does not begin with `head`."""
        disk = world.disk()
        fd = disk.open_to_read(path)
        try:
            found = disk.stat(fd)
            if not found.is_file or found.identity != identity:
                raise Elsewhere
            file = cls(disk, fd, ALGORITHMS[os.path.splitext(path)[1]])
            if len(file.first) < head.length or crc32c(file.first[: head.length]) != head.crc:
                raise Rewritten
            file.seek(position, tail)
        except BaseException:
            disk.close(fd)
            raise
        return file

    @property
    def head(self) -> Head:
        return Head(len(self.first), crc32c(self.first))

    def seek(self, position: int, before: Head) -> None:
        """`before`: the bytes before `position`. `ready` looks at them."""
        if position < self.position:
            self._begin()
        self._to = position
        self._tail = before

    def ready(self) -> bool:
        """False: it is on its way to the position.
        Raises Rewritten where it ends before, or has other bytes there."""
        end = min(self._to, self.position + STEP_BYTES)
        while self.position < end:
            if not self.read(min(PACKED_BYTES, end - self.position)):
                raise TooShort(self.position)
        if self.position < self._to:
            return False
        tail, self._tail = self._tail, Head()
        if not tail.ends(self.last):
            raise Rewritten
        return True

    def read(self, size: int) -> bytes:
        """Less than `size` at the end, or before damage."""
        while len(self._rest) < size and (more := self._more()):
            self._rest += more
        data, self._rest = self._rest[:size], self._rest[size:]
        self.position += len(data)
        self.last = (self.last + data[-LAST_BYTES:])[-LAST_BYTES:]
        return data

    def size(self) -> int:
        """The file's size on disk, in bytes."""
        return self._disk.stat(self._fd).size

    def close(self) -> None:
        self._disk.close(self._fd)

    def _begin(self) -> None:
        self._members = Members(self._algorithm, FILE_WINDOW_BITS)
        self._at = 0
        self._rest = b""
        self.last = b""
        self.position = 0
        self.damage = ""

    def _more(self) -> bytes:
        try:
            while True:
                inflated = self._members.read()
                if inflated is None:
                    packed = self._disk.read(self._fd, PACKED_BYTES, self._at)
                    if not packed:
                        self._members.end()
                        self.damage = ""
                        return b""
                    self._at += len(packed)
                    self._members.feed(packed)
                elif inflated[0]:
                    return inflated[0]
        except Corrupt as error:
            self.damage = str(error)
            return b""
