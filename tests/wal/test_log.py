import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import shared
from tests.wal.conftest import Open
from tests.wal.tools import EVERYTHING, checkpoint, chunk_files, commit, on_disk, payloads, put, read, works
from walflow.disk import RealDisk, RecordingDisk
from walflow.errors import DirectoryLocked, FailStop, LogFull
from walflow.testing import SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.format import MAX_COUNT, SLOT, Slot, pack_slot


def test_what_was_committed_is_read_and_what_was_not_is_not(open_log: Open) -> None:
    log = open_log()
    assert log.append(b"tag", b"one\ntwo\n", 2, 1_700) == 1
    assert log.append(b"", b"three\n", 1, 1_701) == 3
    assert read(log) == []
    commit(log)
    assert log.append(b"", b"four\n", 1, 1_702) == 4
    assert read(log) == [(1, 2, b"tag", b"one\ntwo\n", 1_700), (3, 1, b"", b"three\n", 1_701)]
    assert (log.low, log.durable, log.next) == (0, 3, 5)


def test_time_in_a_log_never_goes_back(open_log: Open) -> None:
    log = open_log()
    for clock in (5, 9, 7, 9, 8, 10):
        log.append(b"", b"event", 1, clock)
    commit(log)
    assert [record.ingest_ns for record in log.reader().read(EVERYTHING)] == [5, 9, 9, 9, 9, 10]


@pytest.mark.parametrize("clean", [True, False], ids=["a clean stop", "a crash"])
def test_nor_over_a_restart_with_a_clock_that_was_set_back(open_log: Open, clean: bool) -> None:
    log = open_log()
    log.append(b"", b"before", 1, 1_000)
    commit(log)
    (log.close if clean else log.abandon)()
    for _ in range(2):  # the second start reads what the first has written
        log = open_log()
        log.append(b"", b"after", 1, 3)
        commit(log)
    assert [record.ingest_ns for record in log.reader().read(EVERYTHING)] == [1_000, 1_000, 1_000]


def test_a_time_before_1970_is_a_time(open_log: Open) -> None:
    log = open_log()
    log.append(b"", b"event", 1, -5)
    commit(log)
    assert [record.ingest_ns for record in log.reader().read(EVERYTHING)] == [-5]


def test_a_record_that_did_not_fit_leaves_no_stamp(open_log: Open) -> None:
    log = open_log()
    log.append(b"", b"event", 1, 5)
    with pytest.raises(LogFull):
        log.append(b"", bytes(log.budget), 1, 1_000)
    log.append(b"", b"event", 1, 7)
    commit(log)
    assert [record.ingest_ns for record in log.reader().read(EVERYTHING)] == [5, 7]


def test_identity_and_positions_outlive_the_process(open_log: Open) -> None:
    log = open_log()
    put(log, b"a", b"b", b"c", count=10)
    log.ack(1, 10)
    checkpoint(log)
    again = open_log()
    assert again.uuid == log.uuid
    assert (again.low, again.durable, again.next) == (10, 30, 31)
    assert payloads(again) == [b"b", b"c"]
    assert again.recovery.backlog == 20
    works(again)


def test_a_clean_stop_needs_no_checkpoint(directory: Path) -> None:
    log = Log(LogOptions(str(directory), 4096))
    put(log, b"a", b"b")
    log.ack(1, 1)
    log.close()
    log = Log(LogOptions(str(directory), 4096))
    assert payloads(log) == [b"b"]
    assert log.recovery.lines() == []
    log.close()


def test_restarts_do_not_grow_the_directory(open_log: Open, directory: Path) -> None:
    put(open_log(), b"a")
    before = sorted(os.listdir(directory))
    for _ in range(5):
        assert payloads(open_log()) == [b"a"]
        assert sorted(os.listdir(directory)) == before


def test_only_the_owner_may_look(open_log: Open, directory: Path) -> None:
    put(open_log(), b"a")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}


def test_a_second_opener_is_told_who_has_it(open_log: Open, directory: Path) -> None:
    directory.mkdir()
    (directory / "LOCK").write_text("98765432109876\n")  # of one that had a longer number
    log = open_log()
    put(log, b"a")
    with pytest.raises(DirectoryLocked, match=f"process {os.getpid()}$"):
        Log(LogOptions(str(directory)))
    script = "import sys; from walflow.wal import Log, LogOptions; Log(LogOptions(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(directory)]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"DirectoryLocked: {directory} is in use by process {os.getpid()}" in other.stderr
    works(log)


def test_the_tail_of_the_log_comes_from_memory_as_it_went_in(open_log: Open) -> None:
    log = open_log(cache_bytes=3000)
    data = [bytes([65 + i]) * 500 for i in range(6)]
    put(log, *data)
    records = log.reader().read(10_000)
    assert [record.payload for record in records] == data
    assert [a.payload is b for a, b in zip(records, data, strict=True)] == [False] * 3 + [True] * 3
    assert [record.payload for record in log.reader(4).read(10_000)] == data[3:], "handed over once, then from disk"


@pytest.mark.parametrize(
    ("disk", "chunk_size", "max_chunks"),
    shared(
        [
            (disk, *size)
            for size in [(65536, 4), (1024, 1), (1024, 100), (65536, 1), (65536, 16)]
            for disk in (RealDisk, RecordingDisk)
        ]
    ),
)
def test_the_budget_holds_at_every_step(
    open_log: Open, directory: Path, chunk_size: int, max_chunks: int, disk: type[RealDisk]
) -> None:
    """However it is overfilled, acked and reopened; and in the end everything came through."""
    log = open_log(chunk_size, max_chunks, disk())
    budget = chunk_size * max_chunks
    chance = random.Random(chunk_size * max_chunks)
    refused = 0
    for step in range(300):
        size = chance.choice([0, 10, log.block_cap, log.block_cap, chunk_size, chance.randrange(log.max_record + 1)])
        size = min(size, log.max_record - 1)
        if log.fits(1, size):
            log.append(b"t", bytes(size), 1, 0)
        else:
            refused += 1
            with pytest.raises(LogFull):
                log.append(b"t", bytes(size), 1, 0)
            assert on_disk(str(directory)) <= log.used
            commit(log)
            records = read(log)
            for record in records[: len(records) // 2 + 1]:
                log.ack(record.position, record.position)
            checkpoint(log)
        if step % 7 == 0:
            commit(log)
        if step % 50 == 49:
            commit(log)
            log = open_log(chunk_size, max_chunks, disk())
        assert on_disk(str(directory)) <= log.used <= budget
        assert 0 <= log.fill <= 1
    assert refused > 5
    commit(log)
    log.ack(1, log.durable)
    checkpoint(log)
    assert log.fits(0, log.max_record)
    works(log)


def test_the_largest_record_fits_an_empty_log_and_a_larger_one_never_does(open_log: Open, directory: Path) -> None:
    for chunk_size, max_chunks in [(1024, 1), (1024, 3), (65536, 1), (65536, 3), (1031, 1)]:
        log = open_log(chunk_size, max_chunks)
        assert not log.fits(0, log.max_record + 1)
        for _ in range(3):
            put(log, bytes(log.max_record))
            assert on_disk(str(directory)) <= log.budget
            assert [len(record.payload) for record in read(log)] == [log.max_record]
            log.ack(1, log.durable)
            checkpoint(log)


def test_a_record_larger_than_a_chunk_has_a_file_of_its_own(open_log: Open, directory: Path) -> None:
    log = open_log(1024, 100)
    sizes = [10, 5000, 20, 3000, 3000, 30]
    put(log, *(bytes(size) for size in sizes))
    assert len(chunk_files(str(directory))) == 6
    assert [len(record.payload) for record in read(log)] == sizes
    assert [len(payload) for payload in payloads(open_log(1024, 100))] == sizes


def test_blocks_are_never_cut_and_chunks_roll_at_the_mark(open_log: Open, directory: Path) -> None:
    log = open_log(1024, 100)
    for _ in range(50):
        put(log, bytes(100))
    sizes = [os.path.getsize(path) for path in chunk_files(str(directory))]
    assert len(sizes) == 10
    assert max(sizes) <= 1024


def test_acks_in_any_order_twice_and_of_what_never_was(open_log: Open) -> None:
    log = open_log()
    put(log, *(b"%d" % i for i in range(10)))
    for first, last in [(9, 9), (3, 4), (3, 3), (5, 5), (50, 99), (0, 0), (-3, -1), (8, 8), (2, 4)]:
        log.ack(first, last)
    assert log.low == 0
    assert log.unacked(1, 99) == [(1, 1), (6, 7), (10, 99)]
    assert payloads(log) == [b"0", b"5", b"6", b"9"]
    log.ack(1, 1)
    assert log.low == 5
    log.ack(1, 10)
    assert log.low == 10
    assert payloads(log) == []


def test_the_cursor_may_stand_inside_a_record(open_log: Open) -> None:
    log = open_log()
    put(log, b"abc", b"defgh", b"ij", count=5)
    log.ack(1, 7)
    checkpoint(log)
    log = open_log()
    assert [record.position for record in read(log)] == [6, 11]
    assert log.unacked(6, 15) == [(8, 15)]
    assert log.recovery.backlog == 8


def test_chunks_go_when_all_in_them_is_acked(open_log: Open, directory: Path) -> None:
    log = open_log(1024, 100)
    for _ in range(20):
        put(log, bytes(200))
    files = len(chunk_files(str(directory)))
    log.ack(2, 20)
    checkpoint(log)
    assert len(chunk_files(str(directory))) == files, "the first position still needs the first chunk"
    log.ack(1, 1)
    checkpoint(log)
    assert len(chunk_files(str(directory))) <= 1
    log = open_log(1024, 100)
    assert payloads(log) == []
    assert log.next == 21
    works(log)


def test_recycled_chunks_never_show_what_they_held(open_log: Open, directory: Path) -> None:
    disk = RecordingDisk()
    log = open_log(65536, 4, disk)
    expected = 0
    for number in range(200):
        put(log, b"%06d" % number * 500)
        assert read(log)[-1].payload[:6] == b"%06d" % number
        if number % 3 == 2:
            log.ack(expected + 1, log.durable)
            expected = log.durable
            checkpoint(log)
        if number % 90 == 89:
            log = open_log(65536, 4, disk)
            assert [record.position for record in read(log)] == list(range(expected + 1, log.durable + 1))
            assert log.recovery.lines() == []
    renamed = [path for operation, path, _ in disk.operations if operation == "rename"]
    assert sum(path is not None and "spare." in path for path in renamed) > 3, "it did recycle"
    assert sum(path is not None and path.endswith(".wal") for path in renamed) > 3


def test_a_recycled_chunk_that_is_cut_at_once_takes_no_more_than_it_holds(open_log: Open, directory: Path) -> None:
    log = open_log(65536, 4)
    put(log, bytes(40_000))
    log.ack(1, 1)
    checkpoint(log)
    assert [name for name in os.listdir(directory) if name.startswith("spare.")]
    for size in (10_000, 65_000, 65_000):
        log.append(b"", bytes(size), 1, 0)
    commit(log)
    assert on_disk(str(directory)) <= log.used <= log.budget


def test_spares_make_room_before_anything_is_written(open_log: Open, directory: Path) -> None:
    log = open_log(65536, 16)
    put(log, *[bytes(62_000)] * 4)
    log.ack(1, 4)
    checkpoint(log)
    assert sum(name.startswith("spare.") for name in os.listdir(directory)) == 2
    size = log.budget - 65536 - 300  # and one spare stays
    put(log, bytes(size))
    assert sum(name.startswith("spare.") for name in os.listdir(directory)) == 1
    assert on_disk(str(directory)) <= log.used <= log.budget
    works(log)


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_a_relaxed_log_leaves_no_file_open_that_it_syncs_at_its_end(open_log: Open, sync: str) -> None:
    log = open_log(1024, 64, sync=sync)
    put(log, *[bytes(800)] * 40)
    log.close()
    assert payloads(open_log(1024, 64)) == [bytes(800)] * 40


def test_the_last_byte_of_the_budget_is_used(open_log: Open) -> None:
    log = open_log(1024, 1)
    put(log, bytes(384))
    assert not log.fits(0, 385)
    assert log.fits(0, 384)
    put(log, bytes(384))
    assert log.used == log.budget == 1024
    assert len(log.chunks) == 1


def test_a_file_that_has_the_next_name_is_not_written_to(open_log: Open, directory: Path) -> None:
    log = open_log(1024)
    put(log, bytes(800))
    theirs = directory / "00000000000000000002.wal"
    theirs.write_bytes(b"theirs")
    log.append(b"", bytes(800), 1, 0)
    one = log.commit()
    assert one is not None
    with pytest.raises(FailStop, match="File exists"):
        one.flush()
    assert theirs.read_bytes() == b"theirs"


def test_a_log_of_one_chunk_lives(open_log: Open, directory: Path) -> None:
    for chunk_size in (1024, 65536):
        log = open_log(chunk_size, 1)
        last = log.durable
        for _ in range(50):
            while log.fits(0, 100):
                log.append(b"", bytes(100), 1, 0)
            commit(log)
            assert on_disk(str(directory)) <= chunk_size
            assert log.durable > last
            last = log.durable
            log.ack(1, last)
            checkpoint(log)


def test_a_refused_record_frees_a_tail_that_is_wholly_acked(open_log: Open) -> None:
    log = open_log(1024, 1)
    put(log, bytes(100))
    log.ack(1, 1)
    checkpoint(log)
    assert not log.fits(0, 700)
    checkpoint(log)
    assert log.fits(0, 700)


def test_memory_does_not_grow_with_the_backlog(open_log: Open) -> None:
    log = open_log(1 << 20, 64, cache_bytes=100_000)
    for _ in range(40):
        put(log, bytes(200_000))
        assert log.cache.bytes <= 100_000


@pytest.mark.parametrize(("chunk_size", "max_chunks"), [(1023, 1), (4096, 0)])
def test_options_that_make_no_log(directory: Path, chunk_size: int, max_chunks: int) -> None:
    with pytest.raises(ValueError, match="chunks of at least 1024"):
        Log(LogOptions(str(directory), chunk_size, max_chunks))


def test_what_no_record_can_hold_is_refused_before_anything_is_done(open_log: Open) -> None:
    log = open_log(1 << 20)
    for tag, count in [(bytes(65_536), 1), (b"", 0), (b"", -1), (b"", 1 << 32)]:
        with pytest.raises(ValueError, match="no record can have"):
            log.append(tag, b"", count, 0)
    assert log.commit() is None
    put(log, b"", tag=bytes(65_535), count=0xFFFF_FFFF)
    log = open_log(1 << 20)
    assert log.next == 1 << 32
    works(log)


def test_an_operator_can_read_what_it_is(open_log: Open, directory: Path) -> None:
    log = open_log()
    put(log, b"a", b"b")
    log.ack(1, 1)
    assert repr(log) == f"<Log {str(directory)!r} acked 1 durable 2 next 3, 1 chunks, 4096 of 65536 bytes>"


def spares(directory: Path) -> int:
    return sum(name.startswith("spare.") for name in os.listdir(directory))


def test_a_record_that_fills_a_chunk_to_its_last_byte_takes_a_spare(open_log: Open, directory: Path) -> None:
    log = open_log(65536, 16)
    put(log, *[bytes(62_000)] * 4)
    log.ack(1, 4)
    checkpoint(log)
    assert spares(directory) == 2
    put(log, bytes(65536 - 160 - 48))
    assert spares(directory) == 1
    assert log.used == 2 * 65536


@pytest.mark.parametrize(("size", "chunks"), [(296, 1), (304, 0)])
def test_a_tail_that_is_half_full_and_wholly_acked_goes(open_log: Open, size: int, chunks: int) -> None:
    log = open_log(1024, 16)
    put(log, bytes(size))
    assert log.chunks[0].end == (504 if chunks else 512)
    log.ack(1, 1)
    checkpoint(log)
    assert len(log.chunks) == chunks


def test_no_more_is_dropped_than_makes_room(open_log: Open) -> None:
    """To the byte, and what was acked is not called dropped."""
    log = open_log(1024, 3)
    put(log, *[bytes(816)] * 3)  # each fills a chunk
    assert [(one.first, one.events) for one in log.drop_oldest(0, 816)] == [(1, 1)]
    assert log.low == 1
    assert log.drop_oldest(0, 816) == []
    assert [(one.first, one.events) for one in log.drop_oldest(0, 817)] == [(2, 1)]


def test_the_widest_hole_that_a_header_can_tell_is_missed_by_nobody() -> None:
    """Not without the cursor that knew of it either."""
    disk = SimulatedDisk()
    log = Log(LogOptions("/log", 1024, 16), disk)
    put(log, b"before")
    log.close()
    slot = pack_slot(bytes.fromhex(log.uuid), Slot(99, 0, 1 + MAX_COUNT))
    fd = disk.open("/log/cursor")
    disk.write(fd, [slot], SLOT)
    disk.close(fd)
    log = Log(LogOptions("/log", 1024, 16), disk)
    assert [(gap.first, gap.last) for gap in log.gaps] == [(2, 1 + MAX_COUNT)]
    assert put(log, b"behind") == [2 + MAX_COUNT]
    log.close()
    disk.unlink("/log/cursor")
    log = Log(LogOptions("/log", 1024, 16), disk)
    assert (log.gaps, payloads(log)) == ([], [b"before", b"behind"])


def test_what_a_dropped_file_was_charged_with_is_free(open_log: Open) -> None:
    """Not only what was written of it."""
    log = open_log(65536, 2)
    put(log, *[bytes(62_000)] * 2)
    assert [(one.first, one.last) for one in log.drop_oldest(0, 66_000)] == [(1, 1)]
    checkpoint(log)
    assert log.fits(0, 66_000)
