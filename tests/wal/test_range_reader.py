"""Ranges as they lie on disk, against what was appended."""

import errno
import itertools
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from tests.wal.conftest import Open
from tests.wal.tools import FaultyDisk, checkpoint, commit, put
from walflow.errors import DiskFull, ReadFailed
from walflow.wal import Log, LogOptions, Record
from walflow.wal.format import crc
from walflow.wal.range_reader import ChunkSpan, Loss, RangeReader, RecordSlice, Trimmed

HEADER = struct.Struct("<4sI QqQ I HHI I")  # as docs/reference/wal-format.md has it


class Found(NamedTuple):
    records: list[Record]
    lost: list[tuple[int, int]]


def records_of(found: RecordSlice) -> list[Record]:
    """Its records, by the format's page and not by the engine's code."""
    records: list[Record] = []
    data, at = found.data, 0
    while at < len(data):
        sync, length, position, ingest, _, count, _, tag, body_crc, header_crc = HEADER.unpack_from(data, at)
        assert sync == b"WF\xa5\x1e"
        assert crc(found.seed, data[at : at + 44]) == header_crc
        body = data[at + 48 : at + 48 + length]
        assert crc(found.seed, body) == body_crc
        records.append(Record(position, count, body[:tag], body[tag:], ingest))
        at += (48 + length + 7) & ~7
    assert at == len(data)
    assert (found.first, found.last) == (records[0].position, records[-1].position + records[-1].count - 1)
    return records


def read_range(reader: RangeReader, first: int, end: int) -> Found:
    scan = reader.begin(first, end)
    records: list[Record] = []
    lost: list[tuple[int, int]] = []
    expected = first
    while (found := scan.next()) is not None:
        if isinstance(found, Loss):
            reader.settle(found)
            lost.append((found.first, found.last))
            assert found.first == expected
        else:
            reader.passed(found)
            assert found.first <= expected
            records += records_of(found)
        expected = found.last + 1
    scan.close()
    assert expected >= end
    return Found(records, lost)


def overlapping(appended: list[Record], first: int, end: int) -> list[Record]:
    return [record for record in appended if record.position < end and record.position + record.count > first]


def fill(log: Log, sizes: list[tuple[int, int]]) -> list[Record]:
    """(bytes, positions) of each record; some in one commit, some not."""
    appended: list[Record] = []
    dice = random.Random(len(sizes))
    now = 0
    for size, count in sizes:
        tag, payload = dice.randbytes(size % 5), dice.randbytes(size)
        now += size
        position = log.append(tag, payload, count, now)
        appended.append(Record(position, count, tag, payload, now))
        if dice.random() < 0.5:
            commit(log)
    commit(log)
    return appended


SIZES = st.lists(st.tuples(st.integers(0, 700), st.integers(1, 9)), min_size=1, max_size=40)


@pytest.mark.test
@given(
    sizes=SIZES,
    chunk_size=st.sampled_from((1024, 5000, 1 << 17)),
    window=st.integers(48, 3000),
    step=st.integers(1, 2000),
    ranges=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
)
def test_any_range_gives_the_records_that_overlap_it(
    sizes: list[tuple[int, int]],
    chunk_size: int,
    window: int,
    step: int,
    ranges: list[tuple[float, float]],
) -> None:
    with TemporaryDirectory() as path:
        log = Log(LogOptions(path, chunk_size, 100))
        appended = fill(log, sizes)
        reader = RangeReader(log, window, step)
        for one, other in ranges:  # the later ones find places remembered
            first, end = sorted(1 + round(share * log.durable) for share in (one, other))
            assert read_range(reader, first, end) == (overlapping(appended, first, end) if end > first else [], [])
            assert 0 <= reader.size(first, end) <= log.used
            reach = reader.reach(first, end, window)
            assert first <= reach <= end
        log.close()


def test_a_chunk_that_is_missing_is_lost_wholly(open_log: Open, directory: Path) -> None:
    log = open_log(1024, 100)
    appended = [Record(position, 1, b"", bytes(400), 7) for position in put(log, *[bytes(400)] * 10)]
    second = log.chunks[1]
    (directory / second.name).unlink()
    reader = RangeReader(log)
    found = read_range(reader, 1, log.durable + 1)
    assert found.lost == [(second.first, second.last)]
    assert found.records == [record for record in appended if not second.first <= record.position <= second.last]
    assert log.gaps[0].reason == "its file is gone"
    found = read_range(reader, second.last, second.last + 2)
    assert found.lost == [(second.last, second.last)]


@given(sizes=SIZES, ranges=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
def test_the_spans_of_a_range_hold_its_records(
    sizes: list[tuple[int, int]], ranges: list[tuple[float, float]]
) -> None:
    with TemporaryDirectory() as path:
        log = Log(LogOptions(path, 1024, 100))
        appended = fill(log, sizes)
        reader = RangeReader(log, step=1)
        read_range(reader, 1, log.durable + 1)  # so places are remembered
        for one, other in ranges:
            first, end = sorted(1 + round(share * log.durable) for share in (one, other))
            found = [position for span in reader.spans(first, end) for position in positions_in(path, span)]
            wanted = [record.position for record in overlapping(appended, first, end)] if end > first else []
            assert found == sorted(set(found))
            assert set(wanted) <= set(found)
        log.close()


def positions_in(path: str, span: ChunkSpan) -> Iterator[int]:
    data, at = Path(path, span.chunk.name).read_bytes(), span.place.offset
    while at < span.limit:
        sync, length, position, *_ = HEADER.unpack_from(data, at)
        assert sync == b"WF\xa5\x1e"
        yield position
        at += (48 + length + 7) & ~7


def test_a_range_that_is_not_all_there_has_no_spans(open_log: Open) -> None:
    log = open_log(1024, 100)
    put(log, *[bytes(400)] * 10)
    reader = RangeReader(log)
    assert [span.chunk for span in reader.spans(1, log.durable + 1)] == list(log.chunks)
    log.ack(1, log.chunks[1].last)
    checkpoint(log)
    assert log.chunks[0].first > 1
    assert reader.spans(1, log.durable + 1) == []
    assert reader.spans(log.durable, log.durable + 2) == []
    assert len(reader.spans(log.durable, log.durable + 1)) == 1


def test_positions_that_no_chunk_holds_are_lost(open_log: Open) -> None:
    """Of a consumer that was left behind: the log itself has let them go."""
    log = open_log(1024, 100)
    put(log, *[bytes(400)] * 10)
    log.ack(1, 5)
    checkpoint(log)
    first = log.chunks[0].first
    found = read_range(RangeReader(log), 1, log.durable + 1)
    assert found.lost == [(1, first - 1)]
    assert found.records[0].position == first
    assert log.gaps == []  # nobody has lost anything that was not acked


def test_a_bad_sector_costs_what_lies_on_it(open_log: Open) -> None:
    class BadSector(FaultyDisk):
        bad = False

        def read(self, fd: int, size: int, offset: int) -> bytes:
            if self.bad and offset < 9000 and offset + size > 8192:
                raise OSError(errno.EIO, "bad")
            return super().read(fd, size, offset)

    disk = BadSector()
    log = open_log(1 << 20, 4, disk=disk)
    put(log, *[bytes(1000)] * 30)
    disk.bad = True
    scan = RangeReader(log).begin(1, 31)
    before = scan.next()
    assert isinstance(before, RecordSlice)
    for _ in range(2):
        with pytest.raises(ReadFailed, match="the disk cannot read it at byte 8192"):
            scan.next()
    scan.close()
    assert log.gaps == [], "nothing is given up"
    disk.bad = False
    assert len(read_range(RangeReader(log), 1, 31).records) == 30
    log = open_log(1 << 20, 4, disk=disk, gives_up=True)
    disk.bad = True
    found = read_range(RangeReader(log), 1, 31)
    assert 20 <= len(found.records) < 30
    assert log.gaps[0].reason == "the disk cannot read them"
    disk.bad = False


def test_with_no_descriptor_left_it_is_tried_again(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(1 << 20, 4, disk=disk)
    put(log, b"one")
    scan = RangeReader(log).begin(1, 2)
    disk.fault = lambda operation, path: errno.EMFILE if operation == "open" else None
    with pytest.raises(DiskFull, match="cannot open"):
        scan.next()
    disk.fault = lambda operation, path: None
    assert isinstance(scan.next(), RecordSlice)
    scan.close()


def test_a_file_that_is_there_and_cannot_be_opened_is_not_lost(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(1 << 20, 4, disk=disk)
    put(log, b"one")
    scan = RangeReader(log).begin(1, 2)
    disk.fault = lambda operation, path: errno.EIO if operation == "open" else None
    with pytest.raises(ReadFailed, match="the disk cannot read it at byte 0: Input/output error"):
        scan.next()
    disk.fault = lambda operation, path: None
    scan.close()


def test_a_chunk_that_is_recycled_while_it_is_read_never_gives_wrong_bytes(open_log: Open) -> None:
    log = open_log(1 << 16, 16)
    payloads = [b"%d" % number * 2000 for number in range(100)]
    put(log, *payloads)
    reader = RangeReader(log, window=8192)
    scan = reader.begin(1, 101)
    found = scan.next()
    assert isinstance(found, RecordSlice)
    log.ack(1, 100)
    checkpoint(log)
    for _ in range(4):
        put(log, *[b"new" * 2000] * 8)  # into the file that was read just now
        log.ack(1, log.durable)
        checkpoint(log)
    given = {record.payload for record in records_of(found)}
    while (found := scan.next()) is not None:
        if isinstance(found, Loss):
            with pytest.raises(Trimmed, match="committed and deleted while they were read"):
                reader.settle(found)
            break
        given |= {record.payload for record in records_of(found)}
    else:
        pytest.fail("all of it was read from a file that had been written over")
    scan.close()
    assert given <= set(payloads)
    assert log.gaps == []


def test_only_what_was_durable_when_it_began_is_given(open_log: Open) -> None:
    log = open_log(1 << 20, 4)
    put(log, b"one", b"two")
    log.append(b"", b"three", 1, 7)
    scan = RangeReader(log).begin(1, 100)
    put(log, b"four")
    found = scan.next()
    assert isinstance(found, RecordSlice)
    assert [record.payload for record in records_of(found)] == [b"one", b"two"]
    assert scan.next() is None
    scan.close()


def test_a_large_record_is_a_slice_of_its_own(open_log: Open) -> None:
    log = open_log(8 << 20, 4)
    sizes = [100, 3 << 20, 100, 100, 2 << 20]
    put(log, *map(bytes, sizes))
    scan = RangeReader(log).begin(1, 6)
    slices = [found for found in iter(scan.next, None) if isinstance(found, RecordSlice)]
    assert [[len(record.payload) for record in records_of(found)] for found in slices] == [
        [100],
        [3 << 20],
        [100, 100],
        [2 << 20],
    ]
    scan.close()


def test_a_later_range_does_not_walk_from_the_beginning(open_log: Open) -> None:
    class Counting(FaultyDisk):
        read_bytes = 0

        def read(self, fd: int, size: int, offset: int) -> bytes:
            data = super().read(fd, size, offset)
            self.read_bytes += len(data)
            return data

    disk = Counting()
    log = open_log(64 << 20, 2, disk=disk)
    for _ in range(16):
        put(log, *[bytes(60_000)] * 16)
    reader = RangeReader(log)
    spent: list[int] = []
    for first in (256, 250, 256, 120):
        before = disk.read_bytes
        assert [record.position for record in read_range(reader, first, first + 1).records] == [first]
        spent.append(disk.read_bytes - before)
    assert spent[0] > 14 << 20  # cold
    assert max(spent[1:]) < 3 << 20


def test_places_are_bounded_and_go_with_their_chunks(open_log: Open) -> None:
    log = open_log(1 << 16, 16)
    reader = RangeReader(log, window=1024, step=1)
    for _ in range(50):
        put(log, *[bytes(500)] * 100)
        read_range(reader, log.low + 1, log.durable + 1)
        log.ack(1, log.durable - 10)
        checkpoint(log)
    assert int(repr(reader).rpartition(", ")[2].split()[0]) < 2000


def test_size_and_reach_agree_with_what_is_there(open_log: Open) -> None:
    log = open_log(1 << 20, 64)
    for size in (100, 3000, 50, 20_000):
        put(log, *[bytes(size)] * 200, count=10)
    reader = RangeReader(log)
    read_range(reader, 1, log.durable + 1)
    ends = list(itertools.accumulate((48 + size + 7) & ~7 for size in (100, 3000, 50, 20_000) for _ in range(200)))
    for first, end in ((1, 8001), (1, 2001), (2001, 4001), (3000, 7000), (6001, 8001)):
        real = ends[(end - 2) // 10] - (ends[(first - 1) // 10 - 1] if first > 10 else 0)
        assert abs(reader.size(first, end) - real) < 300_000 + real // 10
        assert abs(reader.size(first, reader.reach(first, end, real // 2)) - real // 2) < 300_000


def test_what_a_power_cut_tore_and_nobody_was_promised_is_no_loss(directory: Path) -> None:
    """A commit is cut in its middle: what is sound of it stays, and the hole is nobody's, now and after restarts."""
    log = Log(LogOptions(str(directory), 1 << 16, 16))
    put(log, b"one", b"two")
    for name in (b"three", b"four", b"five"):
        log.append(b"", name, 1, 7)
    one = log.commit()
    assert one is not None
    one.flush()
    chunk = directory / log.chunks[0].name
    log.abandon()  # and nobody was told of it
    data = bytearray(chunk.read_bytes())
    data[data.index(b"three")] ^= 1
    chunk.write_bytes(data)
    for _ in range(2):
        log = Log(LogOptions(str(directory), 1 << 16, 16))
        assert log.gaps == []
        scan = RangeReader(log).begin(1, log.durable + 1)
        found = list(iter(scan.next, None))
        losses = [one for one in found if isinstance(one, Loss)]
        assert [(one.first, one.last) for one in losses] == [(3, 3)]
        assert [RangeReader(log).settle(one) for one in losses] == [False]
        scan.close()
        put(log, b"after")
        log.close()


def test_what_was_lost_in_an_earlier_life_is_still_lost(directory: Path) -> None:
    log = Log(LogOptions(str(directory), 1 << 16, 16))
    put(log, *[b"%d" % number * 100 for number in range(10)])
    put(log, b"later")
    chunk = directory / log.chunks[0].name
    data = bytearray(chunk.read_bytes())
    data[data.index(b"3" * 100)] ^= 1
    chunk.write_bytes(data)
    assert read_range(RangeReader(log), 1, 12).lost == [(4, 4)]
    log.close()
    log = Log(LogOptions(str(directory), 1 << 16, 16))
    scan = RangeReader(log).begin(1, 12)
    (loss,) = [one for one in iter(scan.next, None) if isinstance(one, Loss)]
    assert RangeReader(log).settle(loss)
    scan.close()
    log.close()
