"""A worker on the daemon's machine reads the log's files itself: the daemon says where the records lie, and their own
checksums tell whether they are those. Then no event goes through the daemon or through a socket."""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyspark_walflow.wire import Damaged
from walflow_kernel.log_records import RECORD, RECORD_START as HEADER, SYNC, record_offsets, record_size

WINDOW: Final = 1 << 20


class UnreadableFile(OSError):
    """This process may not open the file, or there is none where it looks:
    it has another user or another root directory."""


class FilePart(NamedTuple):
    """Where records lie, one behind the other: in the file `path` from byte `offset` up to, but not including,
    `limit`. `seed`: of their checksums."""

    path: str
    seed: int
    offset: int
    limit: int

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> "FilePart":
        """Raises Damaged."""
        path, seed, offset, limit = (fields.get(name) for name in cls._fields)
        if isinstance(path, str) and isinstance(seed, int) and isinstance(offset, int) and isinstance(limit, int):
            return cls(path, seed, offset, limit)
        raise Damaged(f"a place in a file without {', '.join(cls._fields)}")

    def records(self, end: int, window: int = WINDOW) -> Iterator[memoryview]:
        """Whole records in order, none of them verified, up to the one that has the last position before `end`. The
        bytes are valid until the next of them is asked for. `window`: bytes read at a time, at least a header, unless
        one record has more. Raises UnreadableFile, OSError, and Damaged for what is no record."""
        at, buffer = self.offset, memoryview(bytearray(window))
        fd = self._open()
        try:
            while at < self.limit:
                data = self._read(fd, at, buffer)
                size, behind = _whole(data, end)
                if not size:
                    buffer = memoryview(bytearray(self._size_of_record(data, at)))
                    continue
                yield data[:size].toreadonly()
                if behind >= end:
                    return
                at += size
        finally:
            os.close(fd)

    def _open(self) -> int:
        try:
            fd = os.open(
                self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            )  # a pipe of that name must not hold it up
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror, self.path) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise UnreadableFile(f"{self.path} is no file")
        return fd

    def _read(self, fd: int, at: int, buffer: memoryview) -> memoryview:
        wanted = buffer[: self.limit - at]
        got = 0
        while got < len(wanted):
            count = os.preadv(fd, [wanted[got:]], at + got)
            if not count:
                raise Damaged(f"{self.path} ends at byte {at + got}, and its records before {self.limit}")
            got += count
        return wanted

    def _size_of_record(self, data: memoryview, at: int) -> int:
        """Of the first one, which is larger than what was read."""
        size = _size_at(data, 0) if len(data) >= HEADER else 0
        if not len(data) < size <= self.limit - at:
            raise Damaged(f"{self.path} has no record at byte {at}")
        return size


def _whole(data: memoryview, end: int) -> tuple[int, int]:
    """How many bytes of whole records are there, and the position behind them."""
    offsets, size = record_offsets(data)
    behind = _behind(data, offsets[-1]) if offsets else 0
    if behind >= end:
        at = next(at for at in offsets if _behind(data, at) >= end)
        return at + _size_at(data, at), _behind(data, at)
    if size <= len(data) - HEADER and (begins := bytes(data[size : size + len(SYNC)])) != SYNC:
        raise Damaged(f"no record begins with {begins!r}")
    return size, behind


def _behind(data: memoryview, at: int) -> int:
    fields: tuple[int, ...] = RECORD.unpack_from(data, at)[2:6]
    return fields[0] + fields[3]


def _size_at(data: memoryview, at: int) -> int:
    return record_size(RECORD.unpack_from(data, at)[1])
