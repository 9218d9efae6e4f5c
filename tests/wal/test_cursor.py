import os
import resource
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.wal.conftest import Open
from tests.wal.tools import FaultyDisk, checkpoint, payloads, put, works
from walflow.wal.cursor import Acked
from walflow.wal.format import SLOT, SLOT_RANGES, Slot, pack_slot, unpack_slot

ranges = st.lists(st.tuples(st.integers(-2, 60), st.integers(-2, 60)), max_size=40)


@given(ranges, st.integers(0, 60), st.integers(0, 60))
def test_acked_is_a_set_of_positions(acks: list[tuple[int, int]], first: int, last: int) -> None:
    acked, model = Acked(), set[int]()
    for low, high in acks:
        fresh = set(range(max(low, 1), high + 1)) - model
        assert acked.add(low, high) == bool(fresh)
        model |= fresh
    known = set(range(1, acked.low + 1)) | {p for low, high in acked.ranges for p in range(low, high + 1)}
    assert known == model
    assert acked.above == len(model) - acked.low
    gaps = zip([(0, acked.low), *acked.ranges], acked.ranges, strict=False)
    assert all(before[1] + 1 < behind[0] for before, behind in gaps), "neighbours merge"
    wanted = set(range(max(first, 1), last + 1))
    assert {p for low, high in acked.missing(first, last) for p in range(low, high + 1)} == wanted - model
    if wanted:
        assert acked.covers(first, last) == (wanted <= model)
    assert all(acked.covers(at, at) == (at in model) for at in range(1, 62))


def test_ranges_that_do_not_fit_are_dropped_from_the_top(open_log: Open) -> None:
    """They come again after a restart; none is lost."""
    log = open_log(1 << 20)
    put(log, *[b"."] * 1000)
    for position in range(2, 1001, 2):
        log.ack(position, position)
    checkpoint(log)
    log = open_log(1 << 20)
    assert len(payloads(log)) == 1000 - SLOT_RANGES
    assert log.unacked(1, 8) == [(1, 1), (3, 3), (5, 5), (7, 7)]


@given(st.integers(0, 8 * SLOT - 1))
def test_a_slot_with_any_bit_flipped_is_none(bit: int) -> None:
    data = bytearray(pack_slot(bytes(16), Slot(3, 4, 9, ((6, 7),))))
    assert unpack_slot(bytes(data)) == (bytes(16), Slot(3, 4, 9, ((6, 7),)))
    data[bit // 8] ^= 1 << bit % 8
    assert unpack_slot(bytes(data)) is None


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("acks", [[3], [1, 3], [1, 2, 3]])
def test_either_slot_may_be_lost_after_chunks_have_gone(
    open_log: Open, directory: Path, slot: int, acks: list[int]
) -> None:
    log = open_log(1024)
    put(log, *[bytes(800)] * 5)
    for last in acks:
        log.ack(1, last)
        checkpoint(log)
    with open(directory / "cursor", "r+b") as file:
        file.seek(slot * SLOT)
        file.write(bytes(SLOT))
    log = open_log(1024)
    assert log.gaps == [], "what was deleted in order is not lost"
    assert log.low == 3
    assert len(payloads(log)) == 2
    works(log)


def test_the_cursor_is_on_disk_before_a_chunk_goes(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(1024, 16, disk)
    put(log, *[bytes(800)] * 3)
    log.ack(1, 2)
    disk.operations.clear()
    checkpoint(log)
    assert [(operation, os.path.basename(path or "")) for operation, path, _ in disk.operations] == [
        ("write", "cursor"),
        ("sync", "cursor"),
        ("write", "cursor"),
        ("sync", "cursor"),
        ("unlink", f"{1:020d}.wal"),
        ("unlink", f"{2:020d}.wal"),
        ("sync_directory", "log"),
    ]


def test_chunks_go_where_no_descriptor_is_left(open_log: Open, directory: Path) -> None:
    log = open_log(1024, 16)
    put(log, *[bytes(800)] * 3)
    log.ack(1, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        checkpoint(log)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert log.chunks[0].first == 3
    assert not (directory / f"{1:020d}.wal").exists()


def test_a_clean_stop_keeps_every_ack_whatever_is_in_the_air(open_log: Open) -> None:
    for checkpoint_flushed in (True, False):
        log = open_log()
        first, _, third = put(log, b"a", b"b", b"c")
        log.ack(first, first)
        one = log.checkpoint()
        assert one is not None
        if checkpoint_flushed:
            one.flush()
        log.ack(third, third)
        log.append(b"", b"nobody was promised this", 1, 0)
        flying = log.commit()
        assert flying is not None
        flying.flush()
        log.close()
        if checkpoint_flushed:
            log.checkpointed(one)  # the loop hears of it after the stop
        log = open_log()
        assert b"b" in payloads(log)
        assert (b"c" in payloads(log)) == (not checkpoint_flushed)
        log.ack(1, log.durable)
        checkpoint(log)


def test_nothing_new_is_not_written(open_log: Open) -> None:
    log = open_log()
    put(log, b"a")
    checkpoint(log)
    assert log.checkpoint() is None
    log.ack(1, 1)
    one = log.checkpoint()
    assert one is not None
    assert log.checkpoint(force=True) is None, "one is in the air"
    with pytest.raises(ValueError, match="not what was flushed"):
        log.checkpointed(one)
    one.flush()
    log.checkpointed(one)
    assert log.checkpoint() is None


@pytest.mark.parametrize("size", [SLOT, SLOT + 100, 2 * SLOT - 1])
def test_a_cursor_that_was_cut_keeps_its_sound_slot(open_log: Open, directory: Path, size: int) -> None:
    log = open_log()
    put(log, b"a", b"b", b"c")
    log.ack(1, 2)
    for _ in range(2):
        checkpoint(log, force=True)
    log.abandon()
    os.truncate(directory / "cursor", size)
    again = open_log()
    assert again.low == 2
    assert (directory / "cursor").stat().st_size == 2 * SLOT


@pytest.mark.parametrize("slot", [0, 1])
def test_after_a_start_either_slot_says_the_same(open_log: Open, directory: Path, slot: int) -> None:
    """Slots that differ may be what is left of a start that was cut between them: what it found must not be judged
    anew, by the older one, when there is more in the log."""
    log = open_log()
    put(log, b"one", b"two")
    log.ack(1, 1)
    checkpoint(log)
    log.abandon()
    open_log().abandon()
    with (directory / "cursor").open("r+b") as cursor:
        cursor.seek(slot * SLOT)
        cursor.write(bytes(SLOT))
    assert payloads(open_log()) == [b"two"]
