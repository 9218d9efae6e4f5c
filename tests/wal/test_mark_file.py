"""The marks of lanes on disk. They may say too little: then events come twice. They never say too much."""

import errno
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.wal.tools import checkpoint, put
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.testing.disk import Kept
from walflow.wal import Log, LogOptions, Mark
from walflow.wal.cursor import Acked
from walflow.wal.mark_file import MAGIC
from walflow.wal.slot_file import MARKS_SLOT, pack, unpack
from walflow.wal.tools.rename import rename

UUID = b"u" * 16
LANES = ["near", "far"]
FILE = "/log/marks"


def opened(disk: MemoryDisk, lanes: Sequence[str] = LANES) -> tuple[Log, list[Mark]]:
    log = Log(LogOptions("/log", 4096, 64), disk)
    return log, list(log.part([lane.split("+") for lane in lanes]))


def left(log: Log, mark: Mark) -> list[tuple[int, int]]:
    return mark.unacked(1, log.durable)


def ahead(disk: MemoryDisk) -> Log:
    """`near` has acked 8 of 10 events, `far` one of them."""
    log, (near, far) = opened(disk)
    put(log, *[b"."] * 10)
    near.ack(1, 5)
    near.ack(7, 9)
    far.ack(3, 3)
    checkpoint(log)
    return log


@given(st.dictionaries(st.text(max_size=30), st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99))), max_size=5))
def test_what_was_packed_is_unpacked(acks: dict[str, list[tuple[int, int]]]) -> None:
    marks = {name: Acked(7, ranges) for name, ranges in acks.items()}
    generation, found = unpack(UUID, pack(UUID, 3, marks, MAGIC).ljust(MARKS_SLOT, b"x"), MAGIC)
    assert generation == 3
    assert {name: (one.low, one.ranges) for name, one in found.items()} == {
        name: (one.low, one.ranges) for name, one in marks.items()
    }


@given(st.data())
def test_a_slot_that_is_cut_or_changed_says_nothing(data: st.DataObject) -> None:
    sound = pack(UUID, 3, {"near": Acked(7, [(9, 12), (20, 20)])}, MAGIC)
    assert unpack(b"v" * 16, sound, MAGIC) == (0, {}), "of another log"
    assert unpack(UUID, sound[: data.draw(st.integers(0, len(sound) - 1))], MAGIC) == (0, {})
    bit = data.draw(st.integers(0, 8 * len(sound) - 1))
    changed = bytearray(sound)
    changed[bit // 8] ^= 1 << bit % 8
    assert unpack(UUID, bytes(changed), MAGIC) == (0, {})


def test_ranges_and_names_that_do_not_fit_are_left_out() -> None:
    many = Acked(0, [(at, at + at % 2) for at in range(2, 40_000, 4)])
    data = pack(UUID, 1, {"near": many, "far": many}, MAGIC)
    assert len(data) <= MARKS_SLOT
    _, found = unpack(UUID, data, MAGIC)
    assert all(many.covers(*one) for lane in LANES for one in found[lane].ranges)
    assert unpack(UUID, pack(UUID, 1, {f"{number:0>255}": many for number in range(300)}, MAGIC), MAGIC) == (1, {})


def test_a_lane_that_was_ahead_stays_ahead() -> None:
    disk = MemoryDisk()
    ahead(disk).abandon()
    log, (near, far) = opened(disk)
    assert left(log, near) == [(6, 6), (10, 10)]
    assert left(log, far) == [(1, 2), (4, 10)]
    assert log.unacked(1, 10) == [(1, 2), (4, 10)]
    log.close()


@pytest.mark.parametrize("damage", [b"", b"x" * 40, bytes(2 * MARKS_SLOT)])
def test_without_a_sound_file_all_lanes_begin_at_the_cursor(damage: bytes) -> None:
    disk = MemoryDisk()
    ahead(disk).abandon()
    disk = MemoryDisk({**disk.snapshot(), FILE: damage})
    log, (near, far) = opened(disk)
    assert left(log, near) == left(log, far) == [(1, 2), (4, 10)]
    near.ack(1, 10)
    checkpoint(log)
    log.abandon()
    again, (near, _) = opened(disk)
    assert left(again, near) == []
    again.close()


def test_marks_beyond_what_the_cursor_knows_are_wiped() -> None:
    """All files of the log were taken away but these two: its positions begin anew."""
    disk = MemoryDisk()
    ahead(disk).abandon()
    disk = MemoryDisk({path: kept for path, kept in disk.snapshot().items() if path in (FILE, "/log/meta", "/log")})
    log, _ = opened(disk, ["near"])
    assert disk.content(FILE) == bytes(2 * MARKS_SLOT)
    put(log, *[b"."] * 20)
    log.abandon()
    again, (near, _) = opened(disk)
    assert left(again, near) == [(1, 20)]
    again.close()


def two_checkpoints() -> tuple[dict[str, Kept], dict[str, Kept]]:
    """`near` has acked 5 events, then 10; `far` none."""
    disk = MemoryDisk()
    log, (near, _) = opened(disk)
    kept: list[dict[str, Kept]] = []
    for first in (1, 6):
        put(log, *[b"."] * 5)
        near.ack(first, first + 4)
        checkpoint(log)
        kept.append(dict(disk.snapshot()))
    log.abandon()
    return kept[0], kept[1]


@pytest.mark.parametrize("room", [True, False])
def test_if_the_newer_slot_says_too_much_the_older_one_counts(room: bool) -> None:
    """The cursor and the events of the second checkpoint are gone. What it said of `near` is never believed again."""
    first, second = two_checkpoints()
    disk = MemoryDisk({**first, FILE: second[FILE]})
    if not room:
        disk.fault = lambda operation, path: errno.ENOSPC if path == FILE and operation == "write" else None
    log, (near, far) = opened(disk)
    assert left(log, near) == ([] if room else [(1, 5)])
    assert left(log, far) == [(1, 5)]
    disk.fault = lambda operation, path: errno.ENOSPC if path == FILE else None
    put(log, *[b"new"] * 5)
    checkpoint(log)
    log.abandon()
    disk.fault = None
    again, (near, far) = opened(disk)
    assert left(again, near) == ([(6, 10)] if room else [(1, 10)])
    assert left(again, far) == [(1, 10)]
    again.close()


def test_a_log_with_one_lane_has_no_file_and_uses_what_an_earlier_one_says() -> None:
    disk = MemoryDisk()
    ahead(disk).abandon()
    log, (near,) = opened(disk, ["near"])
    assert left(log, near) == log.unacked(1, 10) == [(6, 6), (10, 10)]
    log.close()
    other = MemoryDisk()
    log, (only,) = opened(other, ["near"])
    put(log, b".", b".")
    only.ack(2, 2)
    log.close()
    assert FILE not in other.sizes()


def test_a_full_disk_does_not_stop_the_cursor() -> None:
    disk = MemoryDisk()
    log, (near, far) = opened(disk)
    put(log, b".", b".", b".")
    disk.fault = lambda operation, path: errno.ENOSPC if path == FILE else None
    near.ack(1, 2)
    far.ack(1, 1)
    checkpoint(log)
    disk.fault = None
    near.ack(3, 3)
    checkpoint(log)
    log.abandon()
    log, (near, far) = opened(disk)
    assert (left(log, near), left(log, far)) == ([], [(2, 3)])
    log.close()


def refused_once(disk: SimulatedDisk) -> Log:
    """The disk was full when `near` had acked one more. A file system that copies on write may have no room for a
    file that is there."""
    ahead(disk).close()
    log, (near, _) = opened(disk)
    near.ack(10, 10)
    disk.fault = lambda operation, path: errno.ENOSPC if path == FILE else None
    checkpoint(log)
    disk.fault = None
    return log


def test_what_a_full_disk_did_not_take_is_stored_at_the_close() -> None:
    disk = SimulatedDisk()
    refused_once(disk).close()
    log, (near, far) = opened(disk)
    assert (left(log, near), left(log, far)) == ([(6, 6)], [(1, 2), (4, 10)])
    log.abandon()


def test_what_a_full_disk_did_not_take_spoils_no_slot() -> None:
    """The power is cut while the marks are written again."""
    disk = SimulatedDisk()
    log = refused_once(disk)
    begun = log.checkpoint(force=True)
    assert begun is not None
    disk.operations_left = 5  # the cursor's slots are synced, the marks are written
    with pytest.raises(PowerCut):
        begun.flush()
    for image in images(disk, Random(1), 32):
        log, (near, far) = opened(disk.like_this(image.files))
        assert left(log, near) in ([(6, 6), (10, 10)], [(6, 6)])
        assert left(log, far) == [(1, 2), (4, 10)]
        log.abandon()


def test_a_power_cut_while_a_mark_is_renamed_leaves_one_name_or_the_other() -> None:
    found: set[str] = set()
    for operations in range(20):
        disk = SimulatedDisk()
        log = ahead(disk)
        uuid = bytes.fromhex(log.uuid)
        log.close()
        disk.operations_left = operations
        ended = False
        with suppress(PowerCut):
            rename("/log", uuid, "near", "archive", disk)
            ended = True
        for image in images(disk, Random(operations), 8):
            log, marks = opened(MemoryDisk(image.files), ["near", "archive", "far"])
            near, archive, far = (left(log, mark) for mark in marks)
            log.abandon()
            assert far == [(1, 2), (4, 10)]
            assert sorted([near, archive]) == [[(1, 2), (4, 10)], [(6, 6), (10, 10)]]
            found.add("near" if len(near) == 2 and near[0] == (6, 6) else "archive")
        if ended:
            break
    assert ended
    assert found == {"near", "archive"}


@pytest.mark.parametrize("seed", range(2))
def test_the_power_may_be_cut_at_any_operation(seed: int) -> None:
    """Whatever is left of the files: no lane has acked an event that it has not,
    also after positions are given anew."""
    cut = 0
    for operations in range(5, 400):
        disk = SimulatedDisk()
        disk.operations_left = operations
        acked: dict[str, set[int]] = {lane: set() for lane in LANES}
        try:
            _life(disk, Random(seed), acked)
        except PowerCut:
            cut += 1
        else:
            break
        for image in images(disk, Random(operations), 3):
            after = disk.like_this(image.files)
            log, marks = opened(after)
            for lane, mark in zip(LANES, marks, strict=True):
                kept = {at for at in range(1, log.durable + 1) if not mark.unacked(at, at)}
                assert kept <= acked[lane], (lane, kept, acked[lane])
                assert mark.unacked(log.durable + 1, log.durable + 99) == [(log.durable + 1, log.durable + 99)]
            log.abandon()
    assert cut > 50


@pytest.mark.parametrize("operations", range(8))
def test_a_position_that_is_given_anew_is_in_no_mark(operations: int) -> None:
    """A cut during a checkpoint, and the last commit cannot be read afterwards: if the cursor does not know of it, it
    looks torn, and its positions are given to other events."""
    disk = SimulatedDisk()
    log, (near, _) = opened(disk)
    put(log, b"a" * 100)
    checkpoint(log)
    put(log, b"b" * 100)
    near.ack(1, 2)
    begun = log.checkpoint()
    assert begun is not None
    disk.operations_left = operations
    with suppress(PowerCut):
        begun.flush()
    for image in images(disk, Random(operations), 8):
        after = disk.like_this({path: _spoiled(path, kept) for path, kept in image.files.items()})
        log, marks = opened(after)
        for mark in marks:
            assert mark.unacked(log.durable + 1, log.durable + 9) == [(log.durable + 1, log.durable + 9)]
        log.abandon()


def _spoiled(path: str, kept: Kept) -> Kept:
    return (
        kept._replace(data=kept.data.replace(b"b" * 100, b"b" * 99 + b"c"))
        if path.endswith(".wal") and kept.data
        else kept
    )


def _life(disk: SimulatedDisk, chance: Random, acked: dict[str, set[int]]) -> None:
    log, marks = opened(disk)
    for _ in range(12):
        put(log, *[b"." * chance.randrange(400)] * chance.randrange(1, 5))
        for lane, mark in zip(LANES, marks, strict=True):
            first = chance.randrange(1, log.durable + 1)
            last = min(log.durable, first + chance.randrange(4))
            acked[lane] |= set(range(first, last + 1))
            mark.ack(first, last)
        if chance.random() < 0.6:
            checkpoint(log)
    log.close()
