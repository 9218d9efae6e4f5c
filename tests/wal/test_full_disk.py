"""A disk with less room than a log would like, or none: what did not come off is given back, and what is acked is
deleted all the same. On a disk that keeps what a failed preallocation found, as ext4 does; on real ones:
tests/faults/test_real_disk.py."""

import errno
from contextlib import suppress

import pytest

from tests.wal.tools import checkpoint, payloads, put
from walflow.durable import DiskFolder, replace
from walflow.errors import DiskFull
from walflow.testing import SimulatedDisk
from walflow.wal import Log, LogOptions

CHUNK = 1 << 20
NAME = f"/log/{1:020d}.wal"


def preallocating(capacity: int | None = None) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.preallocates = True
    disk.capacity = capacity
    return disk


@pytest.mark.parametrize("room", [300_000, 70_000, 20_000])
def test_with_less_room_than_a_chunk_takes_events_are_appended_and_most_of_the_room_is_left(room: int) -> None:
    disk = preallocating()
    log = Log(LogOptions("/log", CHUNK, 4), disk)
    disk.capacity = disk.used() + room
    put(log, b"one")
    assert disk.sizes()[NAME] < room
    put(log, *[b"%d" % number for number in range(20)])
    assert len(payloads(log)) == 21
    log.abandon()
    again = Log(LogOptions("/log", CHUNK, 4), disk.like_this(disk.snapshot()))
    assert len(payloads(again)) == 21
    assert again.recovery.lines() == []


def test_a_chunk_grows_into_the_room_that_there_is_and_the_last_write_that_does_not_fit_leaves_nothing() -> None:
    disk = preallocating()
    log = Log(LogOptions("/log", CHUNK, 4), disk)
    disk.capacity = disk.used() + 300_000
    durable, commit = 0, None
    with suppress(DiskFull):
        while True:
            log.append(b"", b"x" * 10_000, 1, 7)
            commit = log.commit()
            assert commit is not None
            commit.flush()
            log.committed(commit)
            durable += 1
    assert 25 <= durable <= 29, "of about 29 that there is room for"
    assert disk.sizes()[NAME] <= 300_000
    before = disk.sizes()[NAME]
    assert commit is not None
    for _ in range(3):
        with pytest.raises(DiskFull):
            commit.flush()
        assert disk.sizes()[NAME] == before, "each attempt gives back what it took"
    disk.capacity = None
    commit.flush()
    log.committed(commit)
    assert len(payloads(log)) == durable + 1
    for _ in range(60):
        put(log, b"x" * 10_000)
    assert disk.sizes()[NAME] == CHUNK, "there is room again for all of it"
    log.ack(1, log.durable)
    checkpoint(log)


@pytest.mark.parametrize("preallocates", [True, False])
def test_without_any_room_nothing_is_held(preallocates: bool) -> None:
    disk = preallocating()
    disk.preallocates = preallocates
    log = Log(LogOptions("/log", CHUNK, 4), disk)
    disk.capacity = disk.used() + 3000
    log.append(b"", b"x" * 9000, 1, 7)
    commit = log.commit()
    assert commit is not None
    for _ in range(3):
        with pytest.raises(DiskFull):
            commit.flush()
        assert disk.used() == disk.capacity - 3000
    disk.capacity = None
    commit.flush()
    log.committed(commit)
    assert payloads(log) == [b"x" * 9000]


def test_a_chunk_that_could_not_have_all_its_room_is_no_spare_and_one_that_has_is() -> None:
    disk = preallocating()
    log = Log(LogOptions("/log", CHUNK, 16), disk)
    disk.capacity = disk.used() + CHUNK * 3 // 4
    put(log, b"x" * 600_000)
    disk.capacity = None
    put(log, b"x" * 600_000)
    log.ack(1, 1)
    checkpoint(log)
    assert not [name for name in disk.sizes() if "spare" in name]
    assert log.used <= log.budget


def test_a_copy_for_which_there_is_no_room_leaves_nothing() -> None:
    disk = SimulatedDisk({"/d/f": b"old"})
    disk.capacity = disk.used() + 100
    with pytest.raises(OSError, match="No space left"):
        replace(DiskFolder(disk, "/d"), "f", [b"x" * 50, b"x" * 200])
    assert disk.sizes() == {"/d/f": 3}


@pytest.mark.parametrize("made", [False, True])
def test_nothing_on_the_way_to_a_deletion_needs_room(made: bool) -> None:
    """The cursor, the trail, the marks of lanes, what came from logs upstream, a spare's name, a report of damage.
    `made`: the files beside the cursor are there already, as when a daemon runs."""
    disk = preallocating()
    log = Log(LogOptions("/log", 1 << 16, 32), disk)
    near, far = log.part([["near"], ["far"]])
    arrivals = log.remember_arrivals()
    if made:
        arrivals.make()
        checkpoint(log, force=True)
    for _ in range(12):
        put(log, b"x" * 31_500)
    disk.capacity = disk.used()
    refused: list[str] = []

    def full(operation: str, path: str) -> int | None:
        if operation in ("create", "makedir", "rename"):
            refused.append(operation)
            return errno.ENOSPC
        return None

    disk.fault = full
    before = len(log.chunks)
    near.ack(1, 9)
    far.ack(1, 9)
    checkpoint(log)
    assert "rename" in refused, "a spare was to be kept"
    assert len(log.chunks) < before
    assert disk.used() < disk.capacity
    assert len(disk.sizes()) <= len(log.chunks) + 6
    disk.fault = None
    put(log, b"y" * 30_000)
