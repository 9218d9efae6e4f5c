"""Ranges where one byte, one position or one descriptor makes the difference."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.test_range_reader import fill, read_range
from tests.wal.tools import FaultyDisk, checkpoint, put
from walflow.wal import Log, LogOptions, Record
from walflow.wal.cursor import Acked
from walflow.wal.format import CHUNK_START
from walflow.wal.range_reader import Loss, RangeReader, RecordPlace, RecordSlice
from walflow.wal.tools.build import Builder

STEP = 256 << 10  # bytes between two places of a window


def slices(reader: RangeReader, first: int, end: int) -> list[RecordSlice]:
    scan = reader.begin(first, end)
    found = [one for one in iter(scan.next, None) if isinstance(one, RecordSlice)]
    scan.close()
    return found


def places(reader: RangeReader) -> int:
    return int(repr(reader).rpartition(", ")[2].split()[0])


def damage(log: Log, payload: bytes) -> None:
    path = Path(log.directory.path, log.chunks[0].name)
    data = bytearray(path.read_bytes())
    data[data.index(payload)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("offsets", "kept"),
    [
        ([99], 0),
        ([100], 1),
        ([300, 399], 1),
        ([300, 400], 2),
        ([300, 201], 1),
        ([300, 200], 2),
    ],
)
def test_a_place_is_kept_a_whole_step_from_those_beside_it(open_log: Open, offsets: list[int], kept: int) -> None:
    log = open_log()
    put(log, b"one")
    reader = RangeReader(log, step=100)
    for offset in offsets:
        reader.note(log.chunks[0], RecordPlace(1 + offset, CHUNK_START + offset))
    assert places(reader) == kept


def test_a_window_notes_its_beginning_and_every_step(open_log: Open) -> None:
    log = open_log(8 << 20, 4)
    put(log, *[bytes((64 << 10) - 48)] * 20)  # sixteen to a window
    found = slices(RangeReader(log), 1, 21)
    assert [(one.first, one.last) for one in found] == [(1, 16), (17, 20)]
    offsets = {position: CHUNK_START + (position - 1) // 4 * STEP for position in (1, 5, 9, 13, 17)}
    assert [[*one.places] for one in found] == [
        [RecordPlace(position, offsets[position]) for position in (1, 5, 9, 13)],
        [RecordPlace(17, offsets[17])],
    ]


def test_a_record_that_is_its_header_alone_may_end_a_window(open_log: Open) -> None:
    log = open_log()
    put(log, bytes(16), b"", bytes(16), bytes(16))
    found = slices(RangeReader(log, window=64 + 48), 1, 5)
    assert [(one.first, one.last) for one in found] == [(1, 2), (3, 3), (4, 4)]


def test_places_of_a_chunk_that_is_gone_are_forgotten(open_log: Open) -> None:
    log = open_log(1024, 16)
    put(log, *[bytes(200)] * 12)
    reader = RangeReader(log, window=256, step=1)
    read_range(reader, 1, 13)
    assert (len(log.chunks), places(reader)) == (4, 8)
    log.ack(1, 9)
    checkpoint(log)
    reader.begin(10, 13).close()
    assert (len(log.chunks), places(reader)) == (1, 2)


def test_reach_is_where_so_many_bytes_end(open_log: Open) -> None:
    log = open_log(1 << 16, 4)
    put(log, *[bytes(16)] * 16)
    reader = RangeReader(log)
    assert [reader.reach(1, 17, 64 * count) for count in range(18)] == [*range(1, 18), 17]
    assert [reader.reach(5, 9, 64 * count) for count in range(6)] == [5, 6, 7, 8, 9, 9]


def test_the_size_of_a_range_reaches_its_end(open_log: Open) -> None:
    """However the shares of a chunk were rounded."""
    log = open_log(1024, 100)
    fill(log, [(size, 1 + size % 3) for size in range(0, 200, 7)])
    reader = RangeReader(log)
    for first, end in itertools.combinations(range(1, log.durable + 2), 2):
        assert reader.reach(first, end, reader.size(first, end)) == end


def test_what_could_not_be_kept_is_lost_to_whoever_asks_again(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(disk=disk)
    put(log, b"one", b"two", b"three", count=10)
    damage(log, b"two")
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "create" else None
    reader = RangeReader(log)
    for first, end in ((11, 21), (11, 21), (11, 12), (20, 21)):
        scan = reader.begin(first, end)
        loss = scan.next()
        assert isinstance(loss, Loss)
        assert (loss.first, loss.last) == (first, end - 1)
        assert reader.settle(loss)
        scan.close()
    (gap,) = log.gaps
    assert (gap.first, gap.last) == (11, 20)
    assert "not kept in quarantine/" in gap.reason


def test_what_was_durable_and_is_gone_is_lost(open_log: Open, directory: Path) -> None:
    """Asked for by itself, up to the chunk that was begun behind it."""
    log = open_log(1 << 16, 16)
    put(log, *[bytes(16)] * 10)
    log.close()
    os.truncate(directory / log.chunks[0].name, CHUNK_START + 5 * 64)
    log = open_log(1 << 16, 16)
    put(log, b"new")
    assert [(gap.first, gap.last) for gap in log.gaps] == [(6, 10)]
    assert log.chunks[1].first == 11
    reader = RangeReader(log)
    scan = reader.begin(6, 11)
    loss = scan.next()
    assert isinstance(loss, Loss)
    assert (loss.first, loss.last) == (6, 10)
    assert reader.settle(loss)
    assert scan.next() is None
    scan.close()


def test_a_walk_may_be_given_descriptor_0(open_log: Open, directory: Path) -> None:
    """In a process that was started without a standard input."""
    log = open_log()
    put(log, *[name * 30 for name in (b"one", b"two", b"three")])
    damage(log, b"two" * 30)
    reader = RangeReader(log)
    scan = reader.begin(1, 4)
    stdin = os.dup(0)
    os.close(0)
    try:
        found = scan.next()
        assert os.readlink("/proc/self/fd/0") == str(directory / log.chunks[0].name)
        while found is not None:
            assert not isinstance(found, Loss) or reader.settle(found)
            found = scan.next()
        scan.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    (kept,) = (directory / "quarantine").glob("*.bytes")
    assert b"wo" + b"two" * 29 in kept.read_bytes()
    assert [(gap.first, gap.last) for gap in log.gaps] == [(2, 2)]


def told(log: Log, first: int, end: int) -> list[tuple[int, int, str]]:
    """What comes of a range, and what is said of that."""
    reader = RangeReader(log)
    scan = reader.begin(first, end)
    found: list[tuple[int, int, str]] = []
    while (one := scan.next()) is not None:
        what = "" if isinstance(one, RecordSlice) else "lost" if reader.settle(one) else "empty"
        found.append((one.first, one.last, what))
    scan.close()
    return found


@pytest.mark.parametrize("cut", [0, 47, 48, 49, 248, 447])
def test_a_record_that_is_cut_off_in_an_older_chunk_is_lost_and_the_walk_goes_on(open_log: Open, cut: int) -> None:
    log = open_log(1024, 100)
    put(log, *[bytes(400)] * 3)
    log.close()
    os.truncate(os.path.join(log.directory.path, log.chunks[1].name), CHUNK_START + cut)
    log = open_log(1024, 100)
    assert told(log, 1, 4) == [(1, 1, ""), (2, 2, "lost"), (3, 3, "")]
    assert [(gap.first, gap.last) for gap in log.gaps] == [(2, 2)]


@pytest.mark.parametrize("left", [5, 9])
def test_what_a_recovery_called_lost_is_lost_though_the_next_chunk_passes_it_over(open_log: Open, left: int) -> None:
    log = open_log(1 << 16)
    put(log, *[bytes(16)] * 10)
    log.close()
    os.truncate(os.path.join(log.directory.path, log.chunks[0].name), CHUNK_START + left * 64)
    for _ in range(2):  # the second time it stands in a report alone
        log = open_log(1 << 16)
        put(log, b"new")
        assert told(log, 1, 12) == [(1, left, ""), (left + 1, 10, "lost"), (11, 11, "")]
        assert told(log, left + 1, 10) == [(left + 1, 9, "lost")] * (left < 9)


def test_what_nobody_was_given_is_empty_from_wherever_to_wherever_it_is_read(open_log: Open) -> None:
    put(open_log(sync="interval"), b"one", b"two")
    log = open_log(sync="interval")
    new = log.next
    assert told(log, 1, new) == [(1, 2, ""), (3, new - 1, "empty")]
    put(log, b"three")
    assert told(log, 1, new) == [(1, 2, ""), (3, new - 1, "empty")]
    assert told(log, 1, new + 1) == [(1, 2, ""), (3, new - 1, "empty"), (new, new, "")]
    assert told(log, 5, 10) == [(5, 9, "empty")]
    assert told(log, new - 1, new + 1) == [(new - 1, new - 1, "empty"), (new, new, "")]
    reader = RangeReader(log)
    assert [reader.behind(position) for position in (2, 3, 9, new - 1, new)] == [2, new, new, new, new]


@pytest.mark.parametrize("left", [2, 4])
def test_what_is_lost_and_what_nobody_was_given_come_one_by_one(open_log: Open, left: int) -> None:
    log = open_log(sync="interval")
    put(log, *[bytes(16)] * 5)
    checkpoint(log, force=True)
    path = os.path.join(log.directory.path, log.chunks[0].name)
    log.abandon()
    os.truncate(path, CHUNK_START + left * 64)
    log = open_log(sync="interval")
    assert [(gap.first, gap.last) for gap in log.gaps] == [(left + 1, 5)]
    new = log.next
    put(log, b"new")
    assert told(log, 1, new + 1) == [(1, left, ""), (left + 1, 5, "lost"), (6, new - 1, "empty"), (new, new, "")]
    assert told(log, 5, 7) == [(5, 5, "lost"), (6, 6, "empty")]


def test_a_single_position_that_nobody_was_given_is_empty(tmp_path: Path) -> None:
    """As a log that was imported may have it."""
    builder = Builder(str(tmp_path / "log"), bytes(range(16)), Acked(0, [(2, 2)]), 4096)
    for position in (1, 3):
        builder.add(Record(position, 1, b"", b"one", 7))
    builder.finish(3)
    log = Log(LogOptions(str(tmp_path / "log")))
    assert told(log, 1, 4) == [(1, 1, ""), (2, 2, "empty"), (3, 3, "")]
    assert told(log, 2, 3) == [(2, 2, "empty")]
    log.close()
