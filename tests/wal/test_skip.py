"""Skipped events are neither delivered nor destroyed, whenever the process or the power dies."""

import errno
import json
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.wal.tools import put, read
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.wal import DiskFull, Log, LogOptions
from walflow.wal.tools.skip import NothingToSkip, skip, skippable

OPTIONS = LogOptions("/log", 1024, 8)


def filled(disk: MemoryDisk) -> Log:
    """Positions 1 to 40 in records of two, several chunks; 1 to 5 and 21 are acked."""
    log = Log(OPTIONS, disk)
    for number in range(1, 41, 2):
        put(log, b"%d" % number * 40, count=2)
    log.ack(1, 5)
    log.ack(21, 21)
    log.close()
    return Log(OPTIONS, disk)


def delivered(log: Log) -> set[int]:
    held = {position for record in read(log) for position in range(record.position, record.position + 2)}
    return held & {position for first, last in log.unacked(1, log.durable) for position in range(first, last + 1)}


def kept(disk: MemoryDisk) -> dict[int, bytes]:
    """By position, the bytes in quarantine, for what a report says they are."""
    found: dict[int, bytes] = {}
    for path in disk.inodes:
        if path.startswith("/log/quarantine/") and path.endswith(".json"):
            report = json.loads(disk.content(path))
            assert (report["reason"], report["by"]) == ("skipped by the operator", "anna")
            content = disk.content(f"{path[:-5]}.bytes")
            found |= dict.fromkeys(range(report["first"], report["last"] + 1), content)
    return found


def record_bytes(disk: MemoryDisk, position: int) -> bytes:
    return b"%d" % (position - (position + 1) % 2) * 40


def test_what_is_skipped_is_acked_kept_and_reported() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    before = delivered(log)
    skipped = skip(log, 8, 10, "anna")
    assert [(one.first, one.last) for one in skipped] == [(8, 8), (9, 10)]
    assert disk.is_file(f"/log/{skipped[0].report}")
    log.abandon()
    log = Log(OPTIONS, disk)
    assert delivered(log) == before - {8, 9, 10}
    assert kept(disk).keys() == {8, 9, 10}
    assert all(record_bytes(disk, position) in content for position, content in kept(disk).items())
    log.close()


def test_over_acked_ones_only_the_others_are_skipped() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    assert skip(log, 4, 22, "anna")[0][:2] == (6, 6)
    assert kept(disk).keys() == {*range(6, 21), 22}
    assert log.low == 22
    log.close()


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [(41, 41, "no position 41: its positions end at 40"), (3, 3, "position 3 is acked"), (40, 99, "no position 99")],
)
def test_what_is_not_there_or_acked_is_refused(first: int, last: int, words: str) -> None:
    log = filled(MemoryDisk())
    with pytest.raises(NothingToSkip, match=words):
        skippable(log.acked, log.durable, first, last)
    log.close()


def test_the_last_one_may_be_skipped() -> None:
    log = filled(MemoryDisk())
    assert skippable(log.acked, log.durable, 40, 40) == [(40, 40)]
    log.close()


def test_what_cannot_be_read_is_skipped_as_well() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    chunk = log.chunks[1]
    put_wrong(disk, f"/log/{chunk.name}", 160 + 60)
    skip(log, chunk.first, chunk.first, "anna")
    (report,) = [disk.content(path) for path in disk.inodes if path.endswith(".json")]
    assert json.loads(report)["reason"] == "skipped by the operator, corrupt before"
    log.close()


def put_wrong(disk: MemoryDisk, path: str, at: int) -> None:
    data = bytearray(disk.content(path))
    data[at] ^= 1
    fd = disk.open(path)
    disk.write(fd, [bytes(data)], 0)
    disk.close(fd)


def moments(act: Callable[[Log], object]) -> Iterator[SimulatedDisk]:
    """The disk as it is ahead of each operation of `act` that changes something."""
    operations = 0
    while True:
        disk = SimulatedDisk()
        filled(disk).abandon()
        disk.become(disk.snapshot())
        log = Log(OPTIONS, disk)
        disk.operations_left = operations
        try:
            act(log)
        except PowerCut:
            yield disk
            operations += 1
        else:
            return


def test_a_cut_at_any_moment_leaves_each_event_to_be_delivered_or_kept() -> None:
    dice, seen = Random(7), set[tuple[bool, bool]]()
    for disk in moments(lambda log: skip(log, 8, 10, "anna")):
        for image in images(disk, dice, 24):
            after = SimulatedDisk(image.files)
            log = Log(OPTIONS, after)
            left, held = delivered(log), kept(after)
            for position in (8, 9, 10):
                assert position in left or record_bytes(after, position) in held.get(position, b"")
                seen.add((position in left, position in held))
            assert left - {8, 9, 10} == delivered_before() - {8, 9, 10}
            if 8 in left:
                skip(log, 8, 10, "anna")  # again: the reports may be there already
                assert kept(after).keys() >= {8, 9, 10}
            log.abandon()
    assert seen == {(True, False), (True, True), (False, True)}


def delivered_before() -> set[int]:
    return {*range(6, 41)} - {21}


@pytest.mark.parametrize("operation", ["makedir", "create", "write", "sync", "rename", "sync_directory"])
def test_where_no_copy_can_be_made_nothing_is_skipped(operation: str) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    disk.fault = lambda done, path: errno.ENOSPC if done == operation and "quarantine" in path else None
    with pytest.raises(OSError, match="No space left"):
        skip(log, 8, 10, "anna")
    log.abandon()
    disk.fault = None
    log = Log(OPTIONS, disk)
    assert delivered(log) == delivered_before()
    log.close()


def test_a_cursor_that_cannot_be_written_is_told() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    disk.fault = lambda done, path: errno.ENOSPC if (done, path) == ("write", "/log/cursor") else None
    with pytest.raises(DiskFull):
        skip(log, 8, 10, "anna")
    log.abandon()
