"""A log that is built out of records is whole under its name or is not there."""

import errno
import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.wal.tools import EVERYTHING, FaultyDisk, QuickDisk, read, works
from walflow.disk import Disk as AnyDisk
from walflow.errors import DirectoryLocked, DiskFull, WalflowError
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.wal import Log, LogOptions, Record
from walflow.wal.cursor import Acked
from walflow.wal.format import CHUNK_START, MAX_COUNT, MAX_LENGTH, MAX_TAG, chunk_name, record_size
from walflow.wal.tools.build import PIECE, Builder, Taken, _expect_possible
from walflow.wal.tools.inspect import check, look, records

UUID = bytes(range(16))
RECORDS = [Record(position, 2, b"tag", b"%d" % position * 30, position) for position in (5, 7, 9, 15, 17, 19)]


def build(path: Path, disk: AnyDisk | None = None) -> None:
    builder = Builder(str(path), UUID, Acked(4, [(11, 14)]), 400, disk)
    try:
        for record in RECORDS:
            builder.add(record)
        assert builder.finish(20) == 0
    except Exception:
        builder.discard()
        raise


def test_it_is_a_log_with_these_records(tmp_path: Path) -> None:
    build(tmp_path / "log")
    assert list(records(look(str(tmp_path / "log")), 1, 10)) == RECORDS[:3]
    log = Log(LogOptions(str(tmp_path / "log")), QuickDisk())
    reader = log.reader()
    assert (log.uuid, log.low, log.durable, reader.read(EVERYTHING)) == (UUID.hex(), 4, 20, RECORDS)
    assert (log.gaps, log.recovery.lines()) == ([], [])
    assert [chunk.before for chunk in log.chunks] == [0, 5, 9, 15]
    assert check(str(tmp_path / "log"))[1] == []
    works(log)
    log.close()


class Killed(BaseException):
    pass


class Disk(FaultyDisk):
    """Which a dead process leaves nothing open of."""

    def __init__(self) -> None:
        super().__init__(preallocates=False)
        self.fds: set[int] = set()

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        fd = super().open(path, create=create, exclusive=exclusive, mode=mode)
        self.fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self.fds.remove(fd)

    def die(self) -> None:
        for fd in list(self.fds):
            self.close(fd)
        for fd in list(self._held.values()):
            self.let_go(fd)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, 0], ids=["full", "broken", "killed"])
def test_whatever_fails_there_is_all_of_it_or_nothing(tmp_path: Path, failure: int) -> None:
    path, seen = tmp_path / "log", set[bool]()
    for number in count():
        disk = Disk()
        steps = iter([None] * number + [failure])

        def fault(operation: str, path: str, steps: Iterator[int | None] = steps) -> int | None:
            number = next(steps, None)
            if number == 0:
                raise Killed
            return number

        disk.fault = fault
        try:
            build(path, disk)
        except (WalflowError, OSError):
            assert disk.fds == set()
            assert path.exists() or os.listdir(tmp_path) == []
        except Killed:
            disk.die()
        seen.add(path.exists())
        if path.exists():
            assert [one for one in records(look(str(path)), 1, EVERYTHING) if isinstance(one, Record)] == RECORDS
            shutil.rmtree(path)
        if list(steps):
            break  # it got to its end before the failure
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Record(0, 1, b"", b"", 0), "no log has a position 0"),
        (Record((1 << 63) - 1, 2, b"", b"", 0), "no log has a position"),
        (Record(1, 0, b"", b"", 0), "no record has 0 events"),
        (Record(1, 1, bytes(1 << 16), b"", 0), "a tag of 65536 bytes is too large"),
        (Record(1, 1, b"", b"", 1 << 63), "no event arrived at"),
    ],
)
def test_what_no_log_can_have_is_refused(tmp_path: Path, record: Record, words: str) -> None:
    builder = Builder(str(tmp_path / "log"), UUID, Acked(), 1024)
    with pytest.raises(ValueError, match=words):
        builder.add(record)
    builder.discard()
    assert os.listdir(tmp_path) == []


def test_two_do_not_build_the_same(tmp_path: Path) -> None:
    one = Builder(str(tmp_path / "log"), UUID, Acked(), 1024)
    with pytest.raises(DirectoryLocked):
        Builder(str(tmp_path / "log"), UUID, Acked(), 1024)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "file").touch()
    with pytest.raises(Taken, match="was made meanwhile"):
        one.finish(0)
    one.discard()
    assert os.listdir(tmp_path) == ["log"]


class UpToItsName(SimulatedDisk):
    """The power goes as the log gets its name."""

    def rename(self, source: str, target: str) -> None:
        if target == "/log":
            raise PowerCut
        super().rename(source, target)


def test_all_of_it_is_safe_before_it_has_its_name() -> None:
    disk = UpToItsName()
    with pytest.raises(PowerCut):
        build(Path("/log"), disk)
    for image in images(disk, Random(1), 100):
        files = {path.replace(".importing", ""): kept for path, kept in image.files.items()}
        log = Log(LogOptions("/log"), MemoryDisk(files))
        assert (log.uuid, log.low, log.durable, read(log)) == (UUID.hex(), 4, 20, RECORDS)
        assert (log.gaps, log.recovery.lines()) == ([], [])


def test_its_name_is_safe_before_it_is_told_of(tmp_path: Path) -> None:
    disk = Disk()
    build(tmp_path / "log", disk)
    name, parent = str(tmp_path / "log"), str(tmp_path)
    assert disk.operations[-2:] == [("rename", name, 0), ("sync_directory", parent, 0)]
    assert disk.fds == set()


def test_what_another_one_builds_is_not_unmade() -> None:
    """Nor its lock, which whoever comes next would take."""
    disk = MemoryDisk()
    one = Builder("/log", UUID, Acked(), 1024, disk)
    full = [errno.EMFILE]
    disk.fault = lambda operation, path: full.pop() if full and operation == "open" else None
    with pytest.raises(DiskFull):
        Builder("/log", UUID, Acked(), 1024, disk)
    with pytest.raises(DirectoryLocked):
        Builder("/log", UUID, Acked(), 1024, disk)
    one.add(RECORDS[0])
    one.finish(6)
    assert read(Log(LogOptions("/log"), disk)) == RECORDS[:1]


def test_what_a_log_can_just_have_is_taken() -> None:
    disk = MemoryDisk()
    builder = Builder("/log", UUID, Acked(), 160 + 2 * 56, disk)
    one = Record(1, (1 << 32) - 1, b"", b"one", 0)
    most = Record((1 << 63) - 1, 1, bytes(MAX_TAG), b"last", -(1 << 63))
    builder.add(one)
    with pytest.raises(ValueError, match="positions must increase"):
        builder.add(Record(one.count, 1, b"", b"again", 0))
    next_one = Record(one.count + 1, 1, b"", b"two", 0)
    builder.add(next_one)
    builder.add(most)
    builder.finish(most.position)
    assert len([path for path in disk.sizes() if path.endswith(".wal")]) == 2
    assert [one for one in read(Log(LogOptions("/log"), disk)) if one.payload] == [one, next_one, most]


def test_the_longest_record_that_a_log_can_have() -> None:
    """Its length alone, for it has 2 GiB."""
    record = RECORDS[0]
    _expect_possible(record, MAX_LENGTH, record.position)
    with pytest.raises(ValueError, match="a record of 2147483648 bytes is too large"):
        _expect_possible(record, MAX_LENGTH + 1, record.position)


def test_less_than_a_piece_waits_and_a_piece_is_written() -> None:
    disk = MemoryDisk()
    builder = Builder("/log", UUID, Acked(), 4 * PIECE, disk)
    written: list[int] = []
    for position, size in enumerate((PIECE - CHUNK_START - 56, 56, 56, PIECE - 56), 1):
        builder.add(Record(position, 1, b"", bytes(size - record_size(0)), 0))
        written.append(disk.sizes()[f"/log.importing/{chunk_name(1)}"])
    assert written == [0, PIECE, PIECE, 2 * PIECE]
    builder.discard()


@pytest.mark.parametrize(("hole", "known"), [(MAX_COUNT, (1, MAX_COUNT)), (MAX_COUNT + 1, (0, 0))])
def test_a_chunk_names_the_one_before_it_where_it_can_count_what_is_between(
    hole: int, known: tuple[int, int]
) -> None:
    disk = MemoryDisk()
    builder = Builder("/log", UUID, Acked(0, [(2, 1 + hole)]), 1024, disk)
    both = [Record(position, 1, b"", b"event", 0) for position in (1, 2 + hole)]
    for record in both:
        builder.add(record)
    builder.finish(2 + hole)
    log = Log(LogOptions("/log"), disk)
    assert [(chunk.before, chunk.skipped) for chunk in log.chunks] == [(0, 0), known]
    assert (read(log), log.gaps) == (both, [])
