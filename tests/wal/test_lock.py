"""Two processes at one log: on the simulated disk, where each step between them can be chosen,
and on the real one."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import FaultyDisk, checkpoint, payloads, put, works
from walflow.disk import Disk, RealDisk
from walflow.errors import DirectoryLocked, DiskFull, FailStop
from walflow.lock import HeldDirectory, LockFile
from walflow.needs import NotAvailable, unlocked
from walflow.testing import MemoryDisk, SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.tools.inspect import holder
from walflow.wal.tools.repair import Hold

OPTIONS = LogOptions("/log", 4096, 16, cache_bytes=0)


@pytest.mark.parametrize("disk", [MemoryDisk(), SimulatedDisk()], ids=["memory", "simulated"])
def test_two_simulated_processes_cannot_have_one_log(disk: MemoryDisk) -> None:
    first = Log(OPTIONS, disk)
    put(first, b"one")
    for _ in range(2):
        with pytest.raises(DirectoryLocked):
            Log(OPTIONS, disk)
        disk.unlink("/log/LOCK")
    put(first, b"two")
    checkpoint(first, force=True)
    assert disk.is_file("/log/LOCK"), "an older version looks at this file alone"
    first.close()
    assert payloads(Log(OPTIONS, disk)) == [b"one", b"two"]


def test_a_process_whose_lock_file_was_removed_keeps_others_out(open_log: Open, directory: Path) -> None:
    log = open_log()
    put(log, b"one")
    script = "import sys; from walflow.wal import Log, LogOptions; Log(LogOptions(sys.argv[1]))"
    for again in (False, True):
        (directory / "LOCK").unlink()
        if again:
            (directory / "LOCK").touch()
        other = subprocess.run(
            [sys.executable, "-c", script, str(directory)], capture_output=True, text=True, check=False
        )
        assert f"DirectoryLocked: {directory} is in use by another process" in other.stderr
        assert holder(str(directory)) == f"process {os.getpid()}"
        with pytest.raises(NotAvailable, match="in use"):
            unlocked(str(directory)).trial()
        with pytest.raises(DirectoryLocked, match="stop it first"), Hold(str(directory)):
            pass
        checkpoint(log, force=True)
        assert (directory / "LOCK").read_text() == f"{os.getpid()}\n"
    works(log)


def test_an_older_version_locks_the_file_alone(directory: Path) -> None:
    directory.mkdir()
    older = LockFile.take(RealDisk(), str(directory / "LOCK"))
    assert older is not None
    with pytest.raises(DirectoryLocked):
        Log(LogOptions(str(directory)))
    with pytest.raises(DirectoryLocked), Hold(str(directory)):
        pass
    older.release()
    works(log := Log(LogOptions(str(directory))))
    log.close()


def test_an_older_version_that_takes_the_new_lock_file_stops_the_log() -> None:
    disk = MemoryDisk()
    log = Log(OPTIONS, disk)
    put(log, b"one")
    disk.unlink("/log/LOCK")
    assert disk.lock(disk.open("/log/LOCK", create=True))
    with pytest.raises(FailStop, match="LOCK was replaced while the log was in use, and another process has locked"):
        checkpoint(log, force=True)
    log.abandon()


def moved(disk: MemoryDisk) -> None:
    disk.rename("/log", "/aside")


def replaced(disk: MemoryDisk) -> None:
    moved(disk)
    disk.makedir("/log")


def another_log(disk: MemoryDisk) -> None:
    moved(disk)
    put(Log(OPTIONS, disk), b"another's", b"log")


LOSSES = [moved, replaced, another_log]


def a_commit(log: Log) -> None:
    put(log, b"new")


def a_chunk(log: Log) -> None:
    put(log, bytes(4000))


def a_checkpoint(log: Log) -> None:
    checkpoint(log, force=True)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("work", [a_commit, a_chunk, a_checkpoint, payloads])
def test_work_at_a_directory_that_is_another_one_ends_the_log(
    loss: Callable[[MemoryDisk], None], work: Callable[[Log], object]
) -> None:
    disk = SimulatedDisk()
    log = Log(OPTIONS, disk)
    put(log, *[bytes(1000)] * 6)  # so that there is a chunk to be dropped
    log.ack(1, 4)
    loss(disk)
    there = {path: disk.content(path) for path in disk.sizes() if path.startswith("/log/")}
    with pytest.raises(FailStop, match="was moved, replaced or removed"):
        work(log)
    assert log.gaps == [], "what went with the directory is not lost"
    log.close()
    assert {path: disk.content(path) for path in disk.sizes() if path.startswith("/log/")} == there
    if loss is moved:
        disk.rename("/aside", "/log")
        again = Log(OPTIONS, disk)
        assert len(payloads(again)) >= 2
        works(again)


def test_a_full_disk_has_no_room_for_a_lock_file_that_was_removed(open_log: Open, directory: Path) -> None:
    disk = FaultyDisk(preallocates=False)
    log = open_log(disk=disk)
    put(log, b"one", b"two")
    (directory / "LOCK").unlink()
    disk.fault = lambda operation, path: errno.ENOSPC if path.endswith("LOCK") else None
    log.ack(1, 1)
    checkpoint(log)
    assert not (directory / "LOCK").exists()
    with pytest.raises(DirectoryLocked):
        Log(LogOptions(str(directory)))
    disk.fault = lambda operation, path: None
    log.ack(2, 2)
    checkpoint(log)
    assert (directory / "LOCK").exists()


class NoDirectoryLocks(MemoryDisk):
    """A file system that locks files alone."""

    def lock(self, fd: int) -> bool:
        if self._fds[fd][1].data is None:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return super().lock(fd)


def test_without_locks_of_directories_the_file_is_all() -> None:
    disk = NoDirectoryLocks()
    log = Log(OPTIONS, disk)
    put(log, b"one", b"two")
    with pytest.raises(DirectoryLocked):
        Log(OPTIONS, disk)
    disk.unlink("/log/LOCK")
    disk.fault = lambda operation, path: errno.ENOSPC if path.endswith("LOCK") else None
    with pytest.raises(DiskFull):  # to be tried again: until then nothing is deleted
        checkpoint(log, force=True)
    log.abandon()


def test_a_lock_file_that_its_holder_removes_meanwhile_locks_nothing() -> None:
    class Removing(MemoryDisk):
        removes = 1

        def lock(self, fd: int) -> bool:
            locked = super().lock(fd)
            if self.removes:
                self.removes -= 1
                self.unlink("/d/lock")
            return locked

    disk = Removing({"/d/lock": b""})
    lock = LockFile.take(disk, "/d/lock")
    assert lock is not None
    assert lock.is_in_place()
    assert LockFile.take(disk, "/d/lock") is None


@pytest.mark.parametrize("disk", [RealDisk(), MemoryDisk()], ids=["real", "memory"])
def test_a_held_directory_knows_its_place(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    disk.makedir(path)
    place = HeldDirectory.take(disk, path)
    assert place is not None
    assert place.locked
    assert place.is_in_place()
    assert HeldDirectory.take(disk, path) is None
    disk.rename(path, path + ".aside")
    assert not place.is_in_place()
    disk.makedir(path)
    assert not place.is_in_place()
    other = HeldDirectory.take(disk, path)
    assert other is not None
    other.release()
    place.release()
