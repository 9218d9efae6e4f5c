"""The marks of a log with several lanes, on disk, in a file of their own: `marks`.

The cursor says what all lanes have acked, and what may be deleted goes by the cursor alone. What this file says beyond it
only prevents repeats. So it may be lost or be old: then a lane that was ahead of the others gets events again, and no lane
misses one. An older walflow knows nothing of the file and may use the log.

It must never say too much, because what a lane has acked is not sent to it. So it is written after a cursor that says that
these positions are durable: a position that recovery gives to another event is never among them. A file that says more
than the cursor knows, because files of the log were taken away, is removed.
"""

import struct
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Final

from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import CHECKSUM, RANGE, crc

NAME: Final = "marks"
MARKS_SLOT: Final = 64 << 10
HEADER: Final = struct.Struct(
    "<8s 16s Q I I"
)  # magic, uuid, generation, bytes used with the checksum, number of marks
MARK: Final = struct.Struct("<Q I H")  # low, number of ranges, bytes of the name
MAGIC: Final = b"WALFMARK"

Stored = Mapping[str, Acked]


class MarkFile:
    """`stored`: what it said when the log was opened, by lane."""

    def __init__(self, directory: Directory, uuid: bytes) -> None:
        self.stored: Stored = {}
        self._directory = directory
        self._uuid = uuid
        self._fd = -1
        self._generation = 0
        self._said = 0  # changes of the marks that were saved

    def read(self, known: int) -> None:
        """`known`: the cursor says that positions up to this one are durable."""
        disk = self._directory.disk
        if NAME not in disk.names(self._directory.path):
            return
        try:
            self._fd = disk.open(self._directory.file(NAME))
        except OSError as error:
            raise self._directory.cannot_open(NAME, error) from error
        found = [self._slot(offset) for offset in (0, MARKS_SLOT)]
        self._generation, self.stored = max(found, key=lambda one: one[0])
        if any(max([mark.low, *(last for _, last in mark.ranges)]) > known for mark in self.stored.values()):
            self.stored = {}
            self.close()
            self._directory.unlink(NAME)
            self._directory.sync_names()

    @property
    def missing(self) -> bool:
        return self._fd < 0

    def save(self, names: Sequence[str], marks: Sequence[Acked], changes: int) -> "MarkSave | None":
        """None: nothing has changed, and there is a file. `changes`: how often the marks have."""
        if changes == self._said and not self.missing:
            return None
        generation = self._generation + 1
        data = pack(self._uuid, generation, dict(zip(names, marks, strict=True)))
        return MarkSave(self, data, generation, changes)

    def write(self, data: bytes, generation: int, changes: int) -> None:
        """On the thread. Raises DiskFull or FailStop."""
        if self._fd < 0:
            self._fd = self._make()
        self._directory.write(NAME, self._fd, [data], generation % 2 * MARKS_SLOT)
        self._directory.sync(NAME, self._fd)
        # not before: on a full disk the next save goes to the same slot, and the other one stays sound
        self._generation, self._said = generation, changes

    def close(self) -> None:
        if self._fd >= 0:
            self._directory.disk.close(self._fd)
            self._fd = -1

    def _make(self) -> int:
        """With all its bytes, so that marks can be stored on a full disk."""
        self._directory.unlink(NAME)  # of an attempt for which there was no room
        fd = self._directory.create(NAME)
        try:
            self._directory.write(NAME, fd, [bytes(2 * MARKS_SLOT)], 0)
            self._directory.sync(NAME, fd)
            self._directory.sync_names()
        except BaseException:
            self._directory.disk.close(fd)
            raise
        return fd

    def _slot(self, offset: int) -> tuple[int, Stored]:
        try:
            data = self._directory.disk.read(self._fd, MARKS_SLOT, offset)
        except OSError:
            data = b""
        return unpack(self._uuid, data)


class MarkSave:
    """What is to be written after a cursor."""

    def __init__(self, file: MarkFile, data: bytes, generation: int, changes: int) -> None:
        self._file = file
        self._data = data
        self._generation = generation
        self._changes = changes

    def flush(self) -> None:
        self._file.write(self._data, self._generation, self._changes)


def pack(uuid: bytes, generation: int, marks: Stored) -> bytes:
    """Ranges that do not fit are left out, the smallest first; so is a lane whose name does not fit. Their events come
    again, and none is lost."""
    names = {name.encode(): mark for name, mark in marks.items()}
    room = MARKS_SLOT - HEADER.size - CHECKSUM.size - sum(MARK.size + len(name) for name in names)
    if room < 0:
        names, room = {}, 0
    most = room // RANGE.size // max(1, len(names))
    parts: list[bytes] = []
    for name, mark in names.items():
        ranges = mark.ranges
        if len(ranges) > most:
            ranges = tuple(sorted(nlargest(most, ranges, key=lambda one: one[1] - one[0])))
        parts += [MARK.pack(mark.low, len(ranges), len(name)), name, *(RANGE.pack(*one) for one in ranges)]
    body = b"".join(parts)
    used = HEADER.size + len(body) + CHECKSUM.size
    fields = HEADER.pack(MAGIC, uuid, generation, used, len(names)) + body
    return fields + CHECKSUM.pack(crc(0, fields))


def unpack(uuid: bytes, data: bytes) -> tuple[int, Stored]:
    """The generation, and the marks by lane. 0 if the slot is not sound, or of another log."""
    if len(data) < HEADER.size:
        return 0, {}
    magic, of, generation, used, count = HEADER.unpack_from(data)
    if magic != MAGIC or of != uuid or not HEADER.size + CHECKSUM.size <= used <= len(data):
        return 0, {}
    if data[used - CHECKSUM.size : used] != CHECKSUM.pack(crc(0, data[: used - CHECKSUM.size])):
        return 0, {}
    marks: dict[str, Acked] = {}
    at = HEADER.size
    for _ in range(count):
        low, ranges, length = MARK.unpack_from(data, at)
        at += MARK.size
        name = data[at : at + length].decode()
        at += length
        marks[name] = Acked(low, [RANGE.unpack_from(data, at + RANGE.size * number) for number in range(ranges)])
        at += RANGE.size * ranges
    return generation, marks
