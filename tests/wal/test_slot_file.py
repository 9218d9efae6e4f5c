"""The small file in two slots, on its own: what is on disk when each of its calls returns."""

import errno
from collections.abc import Mapping
from random import Random

import pytest

from walflow.errors import DiskFull
from walflow.testing import MemoryDisk, SimulatedDisk, images
from walflow.wal import Log, LogOptions
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import CHECKSUM
from walflow.wal.slot_file import HEADER, MARK, MARKS_SLOT, SlotFile, pack, unpack

UUID = b"u" * 16
FILE = "/log/small"
MANY = Acked(0, [(at, at) for at in range(2, 3000, 2)])


def opened(disk: MemoryDisk) -> SlotFile:
    return SlotFile(Directory("/log", disk), UUID, "small", b"WALFTEST")


def made(disk: MemoryDisk) -> SlotFile:
    disk.makedir("/log")
    disk.sync_directory("/")
    return opened(disk)


def cut(disk: SimulatedDisk) -> SimulatedDisk:
    """What was not synced is gone."""
    return disk.like_this(next(images(disk, Random(1), 1)).files)


def lows(stored: Mapping[str, Acked]) -> dict[str, int]:
    return {name: one.low for name, one in stored.items()}


def test_what_was_saved_is_there_after_a_power_cut() -> None:
    disk = SimulatedDisk()
    file = made(disk)
    for low in range(1, 5):
        file.save({"a": Acked(low)}).flush()
        assert lows(opened(cut(disk)).read()) == {"a": low}


def test_a_slot_that_its_writer_did_not_sync_is_synced_before_it_counts() -> None:
    disk = SimulatedDisk()
    file = made(disk)
    file.save({"a": Acked(1)}).flush()
    disk.lies = frozenset({"sync"})  # the writer dies before
    file.save({"a": Acked(2)}).flush()
    disk.lies = frozenset()
    disk.after_kill(writeback_fails=False)
    assert lows(opened(disk).read()) == {"a": 2}
    assert lows(opened(cut(disk)).read()) == {"a": 2}


def test_a_slot_that_does_not_fit_is_nowhere_after_a_power_cut() -> None:
    disk = SimulatedDisk()
    file = made(disk)
    for low in (1, 2):
        file.save({"a": Acked(low)}).flush()
    assert opened(disk).read(lambda stored: False) == {}
    assert opened(cut(disk)).read() == {}


def test_where_it_cannot_be_wiped_the_file_goes_and_stays_away() -> None:
    """A file system that copies on write, and is full."""
    disk = SimulatedDisk()
    file = made(disk)
    file.save({"a": Acked(1)}).flush()
    file.close()
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "write" else None
    file = opened(disk)
    assert file.read(lambda stored: False) == {}
    assert file.missing
    assert not disk._fds
    assert FILE not in disk.sizes()
    assert FILE not in cut(disk).sizes()


def test_it_has_all_its_bytes_before_a_disk_is_full() -> None:
    disk = SimulatedDisk()
    file = made(disk)
    file.save({}).flush()
    disk.capacity = disk.used()
    for _ in range(2):
        file.save({"a": MANY}).flush()
    assert disk.sizes()[FILE] == 2 * MARKS_SLOT
    assert opened(cut(disk)).read()["a"].ranges == MANY.ranges


def test_a_file_for_which_there_was_no_room_is_made_again() -> None:
    disk = SimulatedDisk()
    file = made(disk)
    disk.capacity = 100
    save = file.save({"a": Acked(1)})
    for _ in range(2):
        with pytest.raises(DiskFull):
            save.flush()
        assert file.missing
        assert not disk._fds
    disk.capacity = None
    save.flush()
    assert lows(opened(cut(disk)).read()) == {"a": 1}


def test_a_log_that_is_closed_has_no_descriptor_of_them() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 4096, 8), disk)
    log.part(["near", "far"])
    log.remember_arrivals().make()
    log.append(b"", b"one", 1, 1)
    log.close()
    assert disk.sizes().keys() >= {"/log/marks", "/log/arrivals"}
    assert not disk._fds


def test_a_name_that_fills_the_slot_is_stored_and_one_byte_more_is_not() -> None:
    longest = MARKS_SLOT - HEADER.size - CHECKSUM.size - MARK.size
    stored = {"n" * longest: Acked(5)}
    assert lows(unpack(UUID, pack(UUID, 1, stored, b"WALFTEST"), b"WALFTEST")[1]) == lows(stored)
    stored = {"n" * (longest + 1): Acked(5)}
    assert unpack(UUID, pack(UUID, 1, stored, b"WALFTEST"), b"WALFTEST") == (1, {})
