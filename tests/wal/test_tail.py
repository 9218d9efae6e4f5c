"""What a start reads, what it calls lost and what torn, and to which position exactly.

The chunks are what a log wrote; the cursor is left out: `low` and `hint` are given by hand, to the position."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import FaultyDisk, put
from walflow.errors import DiskFull
from walflow.testing import MemoryDisk
from walflow.wal import Gap, Log, LogOptions
from walflow.wal.chunk import Chunk
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import CHUNK_START, RECORD_START, chunk_name
from walflow.wal.opening.survey import collect, survey
from walflow.wal.opening.tail import UNSYNCED, Tail

FULL = b"." * 900  # a record that has a chunk of its own
SIZE = 56  # of a small record: `one` and the like
HOLE = "no chunk holds them"


def written(*commits: list[bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1024, 64), disk)
    for commit in commits:
        put(log, *commit)
    log.abandon()
    return disk


def chunks_of(directory: Directory) -> list[Chunk]:
    sheets = survey(directory, [])
    return collect(directory, sheets[0].uuid, sheets, [])


def tail_of(disk: MemoryDisk, low: int, hint: int, *, synced: bool = True, written: int = 0) -> tuple[Tail, set[int]]:
    """And the chunks that it opened, by their first positions."""
    directory = Directory("/log", disk, gives_up=True)
    chunks = chunks_of(directory)
    opened: set[int] = set()
    disk.fault = lambda operation, path: opened.add(int(path[-24:-4])) if operation == "open" else None
    tail = Tail.read(directory, chunks, Acked(low), hint, written=written, relaxed=not synced)
    disk.fault = None
    tail.close()
    return tail, opened


def bytes_of(disk: MemoryDisk, chunk: int) -> bytearray:
    return disk.inodes[f"/log/{chunk_name(chunk)}"].change()


def garble(disk: MemoryDisk, chunk: int, *numbers: int) -> None:
    """A byte of the payload of these small records, counted from 0 in their chunk."""
    for number in numbers:
        bytes_of(disk, chunk)[CHUNK_START + number * SIZE + RECORD_START] ^= 1


def remove(disk: MemoryDisk, chunk: int) -> None:
    disk.unlink(f"/log/{chunk_name(chunk)}")


EACH = [[FULL], [FULL], [FULL], [FULL], [FULL]]
LATER = [[FULL], [FULL], [FULL], [b"4"], [b"5"]]  # what began in the last chunk's first record is over


@pytest.mark.parametrize(
    ("commits", "gone", "low", "hint", "synced", "read"),
    [
        (EACH, 0, 0, 0, True, {4, 5}),  # the last commit may have begun in the chunk before
        ([[FULL], [FULL], [FULL, FULL]], 0, 0, 0, True, {2, 3, 4}),
        ([[FULL, FULL, FULL]], 0, 0, 0, True, {1, 2, 3}),
        (LATER, 0, 0, 0, True, {4}),
        (LATER, 0, 0, 1, False, {2, 3, 4}),  # all that was not synced
        (LATER, 0, 0, 2, False, {3, 4}),
        (LATER, 0, 0, 3, False, {4}),
        (EACH, 2, 0, 5, True, {1, 4, 5}),  # whether the hole begins where the chunk before it ends
        (EACH, 2, 1, 5, True, {1, 4, 5}),
        (EACH, 2, 2, 5, True, {4, 5}),  # all that could be missing is acked
    ],
)
def test_only_chunks_are_read_that_can_hold_what_was_not_synced(
    commits: list[list[bytes]], gone: int, low: int, hint: int, synced: bool, read: set[int]
) -> None:
    disk = written(*commits)
    if gone:
        remove(disk, gone)
    _, opened = tail_of(disk, low, hint, synced=synced)
    assert opened == read


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("hint", [0, 3, 4])
def test_of_a_sound_tail_nothing_is_said(hint: int, synced: bool) -> None:
    """Neither of what lies between two chunks, nor of what lies behind the last position."""
    tail, _ = tail_of(written([FULL], [FULL, FULL, b"4"]), 0, hint, synced=synced, written=0 if synced else 4)
    assert (tail.lost, tail.skipped, tail.torn_records, tail.torn_bytes) == ([], [], 0, 0)
    assert (tail.durable, tail.commit) == (4, 3)


def test_a_log_whose_first_commit_is_acked_in_part_misses_nothing() -> None:
    """Its cursor is gone, and a chunk went when all of it was acked."""
    disk = written([FULL, FULL])
    remove(disk, 1)
    tail, _ = tail_of(disk, 1, 0)
    assert (tail.lost, tail.torn_records) == ([], 0)


def the_second(disk: MemoryDisk) -> None:
    garble(disk, 1, 1)


def the_third(disk: MemoryDisk) -> None:
    garble(disk, 1, 2)


def both(disk: MemoryDisk) -> None:
    garble(disk, 1, 1, 2)


def the_second_and_half_the_fourth(disk: MemoryDisk) -> None:
    garble(disk, 1, 1)
    del bytes_of(disk, 1)[CHUNK_START + 3 * SIZE + 20 :]


def last_of_its_chunk(disk: MemoryDisk) -> None:
    garble(disk, 2, 1)


def cut_off_its_chunk(disk: MemoryDisk) -> None:
    del bytes_of(disk, 2)[CHUNK_START + SIZE :]


def a_chunk(disk: MemoryDisk) -> None:
    remove(disk, 3)


def unreadable(disk: MemoryDisk) -> None:
    disk.bad_from = {f"/log/{chunk_name(1)}": 4096}


def gap(position: int, chunk: int, number: int, reason: str = "corrupt", size: int = SIZE) -> Gap:
    return Gap(position, position, chunk_name(chunk), CHUNK_START + number * SIZE, size, reason)


THREE = [[b"one", b"two", b"three"]]
FOUR = [[b"one", b"two", b"three", b"four"]]
OVER = [[FULL], [b"two", b"three", FULL]]  # the second commit reaches into a third chunk
LARGE = [[b"." * 5000]]
UNREADABLE = gap(1, 1, 0, "the disk cannot read them", 5048)


@pytest.mark.parametrize(
    ("commits", "damage", "hint", "lost", "torn"),
    [
        (THREE, the_second, 1, [], (1, SIZE)),
        (THREE, the_second, 2, [gap(2, 1, 1)], (0, 0)),  # the cursor said that it was durable
        (THREE, the_third, 2, [], (1, SIZE)),
        (THREE, the_third, 3, [gap(3, 1, 2)], (0, 0)),
        (FOUR, the_second_and_half_the_fourth, 1, [], (2, SIZE + 20)),
        (OVER, last_of_its_chunk, 2, [], (1, SIZE)),
        (OVER, last_of_its_chunk, 3, [gap(3, 2, 1)], (0, 0)),
        (OVER, cut_off_its_chunk, 2, [], (1, SIZE)),
        (OVER, cut_off_its_chunk, 3, [gap(3, 2, 1)], (0, 0)),
        (EACH, a_chunk, 0, [Gap(3, 3, "", 0, 0, HOLE)], (0, 0)),  # later commits are there
        (LARGE, unreadable, 0, [UNREADABLE], (0, 0)),
    ],
)
def test_what_is_proved_is_lost_and_the_rest_is_torn(
    commits: list[list[bytes]],
    damage: Callable[[MemoryDisk], None],
    hint: int,
    lost: list[Gap],
    torn: tuple[int, int],
) -> None:
    disk = written(*commits)
    damage(disk)
    tail, _ = tail_of(disk, 0, hint)
    assert [gap for gap, _ in tail.lost] == lost
    assert (tail.torn_records, tail.torn_bytes) == torn


@pytest.mark.parametrize(
    ("commits", "damage", "hint", "lost", "torn"),
    [
        (THREE, the_second, 1, [gap(2, 1, 1, UNSYNCED)], 0),  # what stands behind it was written later
        (THREE, the_second, 2, [gap(2, 1, 1)], 0),
        (THREE, the_third, 2, [], 1),
        (THREE, the_third, 3, [gap(3, 1, 2)], 0),
        (THREE, both, 0, [gap(2, 1, 1, UNSYNCED)], 1),  # a damaged record too stands behind another
        (EACH, a_chunk, 2, [Gap(3, 3, "", 0, 0, f"{HOLE}: {UNSYNCED}")], 0),
        (EACH, a_chunk, 3, [Gap(3, 3, "", 0, 0, HOLE)], 0),
        (LARGE, unreadable, 0, [UNREADABLE], 0),
    ],
)
def test_of_a_relaxed_log_what_has_anything_behind_it_is_lost(
    commits: list[list[bytes]], damage: Callable[[MemoryDisk], None], hint: int, lost: list[Gap], torn: int
) -> None:
    disk = written(*commits)
    damage(disk)
    tail, _ = tail_of(disk, 0, hint, synced=False)
    assert [gap for gap, _ in tail.lost] == lost
    assert tail.torn_records == torn


def test_what_was_durable_or_written_and_is_beyond_all_chunks_is_lost() -> None:
    tail, _ = tail_of(written(*THREE), 0, 4, synced=False, written=5)
    assert [gap for gap, _ in tail.lost] == [
        Gap(4, 4, "", 0, 0, "they were durable and are gone"),
        Gap(5, 5, "", 0, 0, f"{HOLE}: {UNSYNCED}"),
    ]
    assert tail.durable == 5


def test_a_chunk_that_cannot_be_opened_leaves_none_open(open_log: Open, directory: Path) -> None:
    put(open_log(1024), FULL, FULL)
    disk = FaultyDisk()
    chunks = chunks_of(Directory(str(directory), disk))
    disk.fault = lambda operation, path: errno.EMFILE if path.endswith(chunks[0].name) else None
    with pytest.raises(DiskFull, match=chunks[0].name):
        Tail.read(Directory(str(directory), disk), chunks, Acked(), 0)
    assert [path for operation, path, _ in disk.operations if operation == "open"][-1:] == [
        str(directory / chunks[1].name)
    ]


@pytest.mark.parametrize(("hint", "lost"), [(2, []), (3, [Gap(3, 3, "", 0, 0, HOLE)])])
def test_files_that_went_with_their_acks_prove_nothing_of_the_one_behind_them(hint: int, lost: list[Gap]) -> None:
    """The unlink of the second and the names of the last commit were not synced when the power was cut."""
    disk = written([FULL], [FULL], [FULL, FULL])
    remove(disk, 2)
    remove(disk, 3)
    tail, _ = tail_of(disk, 2, hint)
    assert [gap for gap, _ in tail.lost] == lost
    assert tail.torn_records == (not lost)


def test_what_was_acked_out_of_order_and_is_gone_is_no_damage() -> None:
    disk = written([FULL], [FULL], [FULL], [FULL, FULL])
    for chunk in (2, 3, 4):
        remove(disk, chunk)
    directory = Directory("/log", disk, gives_up=True)
    tail = Tail.read(directory, chunks_of(directory), Acked(1, [(3, 3)]), 3)
    tail.close()
    assert [gap for gap, _ in tail.lost] == [Gap(2, 2, "", 0, 0, HOLE)]
    assert tail.torn_records == 1, "of a commit that nobody was promised"
