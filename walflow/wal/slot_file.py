"""A small file beside the cursor, in two slots that are written in turn. What it says only prevents repeats."""

import struct
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Final

from walflow.errors import DiskFull
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import CHECKSUM, RANGE, crc

MARKS_SLOT: Final = 64 << 10
HEADER: Final = struct.Struct(
    "<8s 16s Q I I"
)  # magic, uuid, generation, bytes used with the checksum, number of marks
MARK: Final = struct.Struct("<Q I H")  # low, number of ranges, bytes of the name

Stored = Mapping[str, Acked]


def _nothing() -> None: ...


def _always(stored: Stored) -> bool:
    return True


class SlotFile:
    """Two slots, written in turn. Each has sets of positions, by name."""

    def __init__(self, directory: Directory, uuid: bytes, name: str, magic: bytes) -> None:
        self._directory = directory
        self._uuid = uuid
        self._name = name
        self._magic = magic
        self._fd = -1
        self._left = False  # an attempt to make it failed, and left something
        self._generation = 0

    @property
    def missing(self) -> bool:
        return self._fd < 0

    def read(self, fits: Callable[[Stored], bool] = _always) -> Stored:
        """The sound slot that `fits` and has the highest generation; empty if there is none. A newer slot that does
        not fit is wiped, and is nowhere when this returns: later it might fit, and be wrong."""
        disk = self._directory.disk
        try:
            if self._name not in disk.names(self._directory.path):
                return {}
            self._fd = disk.open(self._directory.file(self._name))
        except OSError as error:
            raise self._directory.cannot_open(self._name, error) from error
        found = sorted(((*self._slot(offset), offset) for offset in (0, MARKS_SLOT)), key=lambda one: -one[0])
        for generation, stored, offset in found:
            if fits(stored):
                self._generation = generation
                self.sync()  # its writer may have died before it did, and the next write is to the other slot
                return stored
            try:
                self._directory.write(self._name, self._fd, [bytes(MARKS_SLOT)], offset)
            except DiskFull:  # a file system that copies on write
                self.remove()
                return {}
        self.sync()
        return {}

    def remove(self) -> None:
        self.close()
        self._directory.unlink(self._name)
        self._directory.sync_names()

    def save(self, stored: Stored, done: Callable[[], None] = _nothing) -> "SlotSave":
        """`done`: called on the thread, once it is on disk."""
        generation = self._generation + 1
        return SlotSave(self, pack(self._uuid, generation, stored, self._magic), generation, done)

    def write(self, data: bytes, generation: int) -> None:
        """On the thread. Raises DiskFull or FailStop."""
        if self._fd < 0:
            self._fd = self._make()
        self._directory.write(self._name, self._fd, [data], generation % 2 * MARKS_SLOT)
        self.sync()
        # Not before: on a full disk the next save goes to the same slot, and the other one stays sound.
        self._generation = generation

    def sync(self) -> None:
        self._directory.sync(self._name, self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            self._directory.disk.close(self._fd)
            self._fd = -1

    def _make(self) -> int:
        """With all its bytes, so that it can be written on a full disk. What a crash leaves of it, the next start
        finds and uses."""
        self._directory.check_place()  # by its name it would be removed, and made, in another log's directory
        if self._left:
            self._directory.unlink(self._name)
            self._left = False
        fd = self._directory.create(self._name)
        try:
            self._directory.check_place()  # it may have become that between the two
            self._directory.write(self._name, fd, [bytes(2 * MARKS_SLOT)], 0)
            self._directory.sync(self._name, fd)
            self._directory.sync_names()
        except BaseException:
            disk = self._directory.disk
            disk.close(fd)
            try:  # what was written of it would be missing elsewhere, and no other file has its name
                disk.unlink(self._directory.file(self._name))
            except OSError:
                self._left = True
            raise
        return fd

    def _slot(self, offset: int) -> tuple[int, Stored]:
        data = self._directory.read(self._name, self._fd, MARKS_SLOT, offset)
        return unpack(self._uuid, data, self._magic)


class SlotSave:
    """What is to be written with a cursor."""

    def __init__(self, file: SlotFile, data: bytes, generation: int, done: Callable[[], None]) -> None:
        self._file = file
        self._data = data
        self._generation = generation
        self._done = done

    def flush(self) -> None:
        self._file.write(self._data, self._generation)
        self._done()


def newest(uuid: bytes, slots: Iterable[bytes], magic: bytes, fits: Callable[[Stored], bool] = _always) -> Stored:
    """What `SlotFile.read` returns for a file with these slots; for one who may not write."""
    best: tuple[int, Stored] = (0, {})
    for data in slots:
        found = unpack(uuid, data, magic)
        if found[0] > best[0] and fits(found[1]):
            best = found
    return best[1]


def pack(uuid: bytes, generation: int, marks: Stored, magic: bytes) -> bytes:
    """Ranges that do not fit are left out, the smallest first; so is a lane whose name does not fit. Their events
    come again, and none is lost."""
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
    fields = HEADER.pack(magic, uuid, generation, used, len(names)) + body
    return fields + CHECKSUM.pack(crc(0, fields))


def unpack(uuid: bytes, data: bytes, wanted: bytes) -> tuple[int, Stored]:
    """The generation, and the marks by lane. 0 if the slot is not sound, or of another log."""
    if len(data) < HEADER.size:
        return 0, {}
    magic, of, generation, used, count = HEADER.unpack_from(data)
    if magic != wanted or of != uuid or not HEADER.size + CHECKSUM.size <= used <= len(data):
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
