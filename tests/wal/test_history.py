"""What is acked and kept: its bounds, and that nothing else waits for it."""

import errno
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import chunk_files, commit
from walflow.testing import MemoryDisk, VirtualClock, VirtualScheduler
from walflow.wal import Log, LogOptions
from walflow.wal.format import CHUNK_START, NO_STAMP, has_history
from walflow.wal.range_reader import RangeReader, RecordSlice

SECOND = 10**9
KEPT = 3  # chunks
BYTES = KEPT * 4096
EVENT = b"x" * 1000  # three of them fill a chunk


def put(log: Log, count: int, *, acks: bool = True, ns: int = 1) -> None:
    for _ in range(count):
        log.append(b"", EVENT, 1, ns)
        commit(log)
        if acks:
            log.ack(log.low + 1, log.durable)
            save(log)


def save(log: Log) -> None:
    while (checkpoint := log.checkpoint()) is not None:
        checkpoint.flush()
        log.checkpointed(checkpoint)


def read(log: Log, position: int) -> list[int]:
    """The positions that are still there."""
    scan = RangeReader(log).begin(position, log.durable + 1)
    found: list[int] = []
    while (one := scan.next()) is not None:
        if isinstance(one, RecordSlice):
            found += range(one.first, one.last + 1)
    scan.close()
    return found


def meta(directory: Path) -> bool:
    return has_history((directory / "meta").read_bytes())


def test_acked_events_stay_and_can_be_read(open_log: Open, directory: Path) -> None:
    log = open_log(max_chunks=2, retain_bytes=1 << 20)
    put(log, 30)
    assert log.low == log.durable == 30
    assert len(chunk_files(str(directory))) == 10
    assert log.used <= log.budget
    assert read(log, 1) == [*range(1, 31)]


def test_the_oldest_goes_once_there_are_more_bytes(open_log: Open, directory: Path) -> None:
    log = open_log(retain_bytes=BYTES)
    put(log, 60)
    assert log.history.count == KEPT
    assert log.history.bytes <= BYTES
    assert len(chunk_files(str(directory))) == KEPT + 1, "and the one that takes records"
    assert read(log, log.chunks[0].first) == [*range(log.chunks[0].first, 61)]


def test_what_is_not_acked_is_no_history(open_log: Open) -> None:
    log = open_log(max_chunks=4, retain_bytes=BYTES)
    put(log, 9)
    with pytest.raises(Exception, match="do not fit"):
        put(log, 60, acks=False)
    assert log.history.bytes <= BYTES
    assert log.used <= log.budget
    assert log.low == 9
    assert log.fill > 0.7


def test_a_start_goes_on_with_it(open_log: Open) -> None:
    log = open_log(max_chunks=2, retain_bytes=1 << 20)
    put(log, 30)
    log.close()
    log = open_log(max_chunks=2, retain_bytes=1 << 20)
    assert log.recovery.backlog == 0
    assert log.used == 0
    assert read(log, 1) == [*range(1, 31)]
    put(log, 3)
    assert read(log, 29) == [29, 30, 31, 32, 33]


def test_a_missing_file_of_it_costs_itself_alone(open_log: Open, directory: Path) -> None:
    log = open_log(retain_bytes=1 << 20)
    put(log, 30)
    log.close()
    Path(chunk_files(str(directory))[2]).unlink()
    log = open_log(retain_bytes=1 << 20)
    assert (log.recovery.gaps, log.recovery.backlog) == ([], 0)
    assert read(log, 1) == [position for position in range(1, 31) if position not in (7, 8, 9)]
    assert log.gaps == []


def test_without_retain_it_goes_and_an_older_version_may_open_the_log(open_log: Open, directory: Path) -> None:
    log = open_log(retain_bytes=1 << 20)
    put(log, 30)
    assert meta(directory)
    log.close()
    log = open_log()
    assert meta(directory), "what is there is a history still"
    save(log)
    assert log.chunks == []
    log.close()
    open_log()
    assert not meta(directory)


def test_a_start_on_a_full_disk_that_keeps_nothing_counts_each_chunk_once() -> None:
    """`meta` cannot say that acked events are kept, so what is acked goes, as without `retain`."""
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 4096, 16), disk)
    put(log, 12, acks=False)
    log.ack(1, 12)
    log._cursor.checkpoint(log._slot(), [], {}, force=True).flush()  # type: ignore[union-attr]  # nothing is deleted yet
    log.abandon()
    disk.fault = lambda operation, path: errno.ENOSPC if path.endswith("meta.tmp") else None
    log = Log(LogOptions("/log", 4096, 16, retain_bytes=1 << 20), disk)
    assert not log.history.keeps
    save(log)
    assert (log.chunks, log.used) == ([], 0)
    log.close()


def test_a_full_disk_takes_it_chunk_by_chunk(open_log: Open) -> None:
    log = open_log(retain_bytes=1 << 20)
    put(log, 30)
    before = log.history.count
    assert log.make_room()
    save(log)
    assert log.history.count == before - 1
    put(log, 30)
    assert log.history.count < before, "it grows no more: a file goes for each that comes"
    log.history.widen()
    put(log, 30)
    assert log.history.count > before
    while log.make_room():
        save(log)
    assert (log.history.count, log.history.bytes) == (0, 0)


def test_the_oldest_goes_by_age_of_log_time_also_after_a_restart() -> None:
    scheduler = VirtualScheduler()
    disk, clock = MemoryDisk(), VirtualClock(scheduler)
    options = LogOptions("/log", 4096, 16, retain_bytes=1 << 20, retain_ns=10 * SECOND)

    def opened() -> Log:
        return Log(options, disk, clock)

    log = opened()
    for _ in range(15):
        put(log, 1, ns=clock.wall_ns())
        scheduler.advance(1)
    assert log.chunks[0].first == 4, "events 1 to 3 are older than ten seconds, and 4 to 6 not all"
    log.close()
    log = opened()
    save(log)
    assert log.chunks[0].first == 4
    scheduler.advance(2)
    save(log)
    assert log.chunks[0].first == 7
    scheduler.advance(20)
    save(log)
    assert log.chunks == []
    log.close()


def test_a_chunk_whose_first_record_is_damaged_has_the_age_of_the_next_one() -> None:
    scheduler = VirtualScheduler()
    disk, clock = MemoryDisk(), VirtualClock(scheduler)
    options = LogOptions("/log", 4096, 16, retain_bytes=1 << 20, retain_ns=10 * SECOND)
    log = Log(options, disk, clock)
    for _ in range(9):
        put(log, 1, ns=clock.wall_ns())
        scheduler.advance(1)
    second = log.chunks[1].name
    log.close()
    fd = disk.open(f"/log/{second}")
    disk.write(fd, [b"x"], CHUNK_START + 20)
    disk.close(fd)
    log = Log(options, disk, clock)
    assert log.chunks[1].since_ns == NO_STAMP
    scheduler.advance(5)
    save(log)
    assert log.chunks[0].first == 1, "the third chunk begins eight seconds ago"
    scheduler.advance(3)
    save(log)
    assert log.chunks[0].first == 7, "both are older than the third one's first record"
    log.close()


def test_the_last_chunk_goes_by_age_too() -> None:
    """Nothing comes any more, and what it has must not stay for ever."""
    scheduler = VirtualScheduler()
    disk, clock = MemoryDisk(), VirtualClock(scheduler)
    log = Log(LogOptions("/log", 4096, 16, retain_bytes=1 << 20, retain_ns=10 * SECOND), disk, clock)
    put(log, 1, ns=clock.wall_ns())
    scheduler.advance(9)
    save(log)
    assert len(log.chunks) == 1
    scheduler.advance(2)
    save(log)
    assert log.chunks == []
    log.close()
