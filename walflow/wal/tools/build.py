"""Makes a new log from records that already have positions, because they come from another log. They keep their
terms too: so a receiver that has stored these positions knows them again (decision 0051).

The log is built under another name and renamed at the end, when all of it is synced. So after a power cut at any
time, the whole log is there or none. The next build removes what a killed one left behind.
"""

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from walflow import world
from walflow.disk import Disk
from walflow.errors import DiskFull, FailStop, Unusable, WalflowError
from walflow.wal.chunk import Chunk
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import (
    BEGINS,
    LAST,
    MAX_COUNT,
    MAX_LENGTH,
    MAX_TAG,
    PADS,
    RECORD_HEADER,
    SLOT,
    SLOT_RANGES,
    SYNC,
    ChunkHeader,
    Record,
    Slot,
    crc,
    pack_chunk_header,
    pack_slot,
    random_salt,
    record_size,
)
from walflow.wal.mark_file import MAGIC, NAME
from walflow.wal.opening.recovery import write_meta
from walflow.wal.opening.survey import NUMBERED
from walflow.wal.slot_file import SlotFile, Stored

SUFFIX: Final = ".importing"
OURS: Final = ("LOCK", "meta", "meta.tmp", "cursor", "marks")
PIECE: Final = 1 << 20
MAX_POSITION: Final = (1 << 63) - 1
NO_MARKS: Final[Stored] = {}


class Taken(WalflowError):
    """Something exists at the path of the new log."""


class Builder:
    """Call `add` for the records in order, then `finish`. `discard` leaves nothing behind. `acked` may grow until
    then. Raises DirectoryLocked if another process builds the same log, DiskFull and FailStop."""

    def __init__(self, path: str, uuid: bytes, acked: Acked, chunk_size: int, disk: Disk | None = None) -> None:
        self._path = os.path.normpath(path)
        self._uuid = uuid
        self._acked = acked
        self._chunk_size = chunk_size
        self._disk: Disk = disk or world.disk()
        self._directory = Directory(self._path + SUFFIX, self._disk)
        self._chunk: Chunk | None = None
        self._waiting: list[bytes] = []
        self._written = 0  # bytes of the chunk
        self._commit = 0
        self._finished = False
        self.last = 0  # position
        self.records = 0
        _expect_free(self._disk, self._path)
        try:
            self._directory.acquire()
        except (DiskFull, FailStop, Unusable):
            self._unmake()
            raise
        try:
            self._clear()
        except Taken:
            self._directory.release()
            raise
        except BaseException:
            self.discard()
            raise

    def __repr__(self) -> str:
        return f"<Builder of {self._path!r}, {self.records} records up to {self.last}>"

    def add(self, record: Record, term: int | None = None) -> None:
        """`term`: as the other log had it; None: a new one. Raises ValueError for a record that no log can have, or
        not after the last one."""
        length = len(record.tag) + len(record.payload)
        last = record.position + record.count - 1
        _expect_possible(record, length, last, term)
        if record.position <= self.last:
            raise ValueError(f"position {record.position} comes after {self.last}: positions must increase")
        chunk, size = self._chunk, record_size(length)
        fits = chunk is not None and record.position == self.last + 1 and chunk.end + size <= self._chunk_size
        if chunk is None or not fits or term not in (None, chunk.salt):
            chunk = self._begin_chunk(record.position, random_salt() if term is None else term)
        self._commit += 1  # each record is a commit of its own: all are synced before anybody can read one
        body = crc(crc(chunk.seed, record.tag), record.payload)
        numbers = (record.position, record.ingest_ns, self._commit, record.count, LAST, len(record.tag), body)
        header = RECORD_HEADER.pack(SYNC, length, *numbers)
        checksum = crc(chunk.seed, header).to_bytes(4, "little")
        self._waiting += (header, checksum, record.tag, record.payload, PADS[length & 7])
        chunk.end += size
        chunk.last = self.last = last
        self.records += 1
        if chunk.end - self._written >= PIECE:
            self._write(chunk)

    def finish(self, durable: int, marks: Stored = NO_MARKS) -> int:
        """Renames the log to its path. `marks`: what single lanes have acked, nothing of it above `durable`. Returns
        how many ranges of acked positions do not fit the cursor: their events will be delivered again. Raises Taken
        if something has come to exist there."""
        self._end_chunk()
        slot = Slot(1, self._acked.low, durable, self._acked.ranges)
        fd = self._directory.create("cursor")
        try:
            for each in (slot._replace(generation=2), slot):
                self._directory.write("cursor", fd, [pack_slot(self._uuid, each)], each.generation % 2 * SLOT)
            self._directory.sync("cursor", fd)
        finally:
            self._disk.close(fd)
        if marks:
            self._save(marks)
        write_meta(self._directory, self._uuid)  # which syncs all names
        try:
            self._disk.rename(self._directory.path, self._path)
        except OSError as error:
            raise _taken(self._path, error) from error
        self._finished = True
        self._disk.sync_directory(os.path.dirname(self._path) or ".")
        self._directory.release()
        return max(len(self._acked.ranges) - SLOT_RANGES, 0)

    def _save(self, marks: Stored) -> None:
        file = SlotFile(self._directory, self._uuid, NAME, MAGIC)
        try:
            file.save(marks).flush()
        finally:
            file.close()

    def discard(self) -> None:
        """Does nothing once it is finished."""
        if self._chunk is not None:
            self._chunk.close(self._disk)
        if not self._finished:
            with suppress(FileNotFoundError):
                for name in self._disk.names(self._directory.path):
                    self._disk.unlink(self._directory.file(name))
                self._disk.remove_directory(self._directory.path)
        self._directory.release()

    def _unmake(self) -> None:
        """Removes what this build made before it had the lock.
        A directory of another process is locked or not empty."""
        lock = self._directory.file("LOCK")
        with suppress(OSError):
            fd = self._disk.open(lock)
            try:
                if self._disk.lock(fd):
                    self._disk.unlink(lock)
            finally:
                self._disk.close(fd)
        with suppress(OSError):
            self._disk.remove_directory(self._directory.path)

    def _clear(self) -> None:
        names = self._disk.names(self._directory.path)
        for name in names:
            if name not in OURS and not NUMBERED.fullmatch(name):
                raise Taken(f"{self._directory.file(name)} is in the way and was not made by an import; move it away")
        for name in names:
            if name != "LOCK":
                self._directory.unlink(name)

    def _begin_chunk(self, position: int, term: int) -> Chunk:
        before = self._chunk
        self._end_chunk()
        header = ChunkHeader(position, self._commit + 1, term, BEGINS)
        hole = position - 1 - self.last
        # A link says that nothing is missing. So there is none behind positions that are, and were not acked.
        if before is not None and hole <= MAX_COUNT and not self._acked.missing(self.last + 1, position - 1):
            header = header._replace(before_first=before.first, before_end=before.end, before_salt=before.salt)
            header = header._replace(skipped=hole)
        self._chunk = chunk = Chunk(self._uuid, header, 0)
        chunk.create(self._directory)
        self._waiting = [pack_chunk_header(self._uuid, header)]
        self._written = 0
        return chunk

    def _write(self, chunk: Chunk) -> None:
        assert chunk.fd is not None
        self._directory.write(chunk.name, chunk.fd, self._waiting, self._written)
        self._waiting = []
        self._written = chunk.end

    def _end_chunk(self) -> None:
        chunk = self._chunk
        if chunk is None or chunk.fd is None:
            return
        self._write(chunk)
        self._directory.sync(chunk.name, chunk.fd)
        chunk.close(self._disk)


def _expect_free(disk: Disk, path: str) -> None:
    try:
        names = disk.names(path)
    except FileNotFoundError:
        names = []
    except NotADirectoryError:
        raise Taken(f"{path} exists and is not an empty directory; import to another path") from None
    if os.path.islink(path):
        raise Taken(f"{path} exists and is not an empty directory; import to another path")
    if names:
        raise Taken(f"{path} is not empty; import to another path")


def _taken(path: str, error: OSError) -> WalflowError | OSError:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
        return Taken(f"{path} was made meanwhile; import to another path")
    return error


def _expect_possible(record: Record, length: int, last: int, term: int | None = None) -> None:
    problems: Sequence[tuple[bool, str]] = (
        (record.position < 1 or last > MAX_POSITION, f"no log has a position {record.position}"),
        (not 0 < record.count <= MAX_COUNT, f"no record has {record.count} events"),
        (len(record.tag) > MAX_TAG, f"a tag of {len(record.tag)} bytes is too large"),
        (length > MAX_LENGTH, f"a record of {length} bytes is too large"),
        (term is not None and not 0 <= term < 1 << 32, f"no log has a term {term}"),
        (not -(1 << 63) <= record.ingest_ns < 1 << 63, f"no event arrived at {record.ingest_ns}"),
    )
    for wrong, what in problems:
        if wrong:
            raise ValueError(what)
