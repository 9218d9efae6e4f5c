"""Cut the power at any operation, in recovery too, three deep: what was committed is there, what was not is nowhere
promised, and nobody is told of a corruption that did not happen. `make soak` goes on where this ends."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from tests.proof.arrived import Arrived
from tests.proof.imports import Import
from tests.proof.laned import Laned
from tests.proof.ledger import Row
from tests.proof.proof import Proof, Story
from tests.proof.relayed import Relayed
from tests.proof.repair_promises import DAMAGES, Repair
from tests.proof.scripts import SCRIPTS, scripted
from tests.proof.sidecar import Sidecar
from tests.proof.stories import Generated
from tests.wal.tools import EVERYTHING, checkpoint, put
from walflow.testing import PowerCut, SimulatedDisk, images
from walflow.wal import Log, LogOptions

SEEN: set[int] = set()  # hashes of all images so far: one is counted once

Source = Callable[[int], Story]

# stories in which long runs found something, in the log or in its judge
FOUND = (501, 759, 838, 898, 1056, 3134, 6267)

# a source of stories, its seeds, and how many images nobody saw before they come to at least: one block of each kind,
# of two seconds each
FIRST: list[tuple[Source, Sequence[int], int]] = [
    (Generated, FOUND, 2_500),
    (scripted, range(1, len(SCRIPTS), 4), 1_900),
    (Relayed, range(8), 3_500),
    (Sidecar, range(2), 7_400),
]
LONG: list[tuple[Source, Sequence[int], int]] = [
    (scripted, range(2, len(SCRIPTS), 4), 1_900),
    (scripted, range(3, len(SCRIPTS), 4), 1_900),
    (Import, range(8), 1_500),
    (Laned, range(12), 6_000),
    (Arrived, range(6), 5_000),
    (Repair, range(len(DAMAGES)), 150),
    (scripted, range(0, len(SCRIPTS), 4), 23_700),
    *[(Sidecar, range(first, first + 2), 7_400) for first in range(2, 10, 2)],
    (Sidecar, range(10, 12), 4_400),
    *[(Generated, range(first, first + 24), 11_400) for first in range(0, 264, 24)],
]


@pytest.mark.parametrize(
    ("source", "seeds", "least"),
    [pytest.param(*block, marks=pytest.mark.test) for block in FIRST]
    + [pytest.param(*block, marks=pytest.mark.nightly) for block in LONG],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_power_may_be_cut_at_any_operation(source: Source, seeds: Sequence[int], least: int) -> None:
    total = Row()
    for seed in seeds:
        total.add(Proof(source(seed), Random(seed), SEEN).run())
    assert total.distinct >= least


def test_so_many_images_are_judged() -> None:
    assert sum(least for _, _, least in FIRST + LONG) >= 200_000


def uncut(disk: SimulatedDisk) -> SimulatedDisk:
    """The power goes, and nothing that was not synced makes it."""
    return disk.like_this(next(images(disk, Random(1), 2)).files)


def opened(disk: SimulatedDisk) -> Log:
    return Log(LogOptions("/log", 4096, 4), disk)


def read_all(log: Log) -> list[bytes]:
    return [record.payload for record in log.reader().read(EVERYTHING)]


def test_its_name_is_safe_before_anyone_hears_it() -> None:
    disk = SimulatedDisk()
    uuid = opened(disk).uuid
    assert opened(uncut(disk)).uuid == uuid


@pytest.mark.parametrize("made", [1, 2, 3])
def test_its_directory_is_safe_too_whoever_made_it(made: int) -> None:
    """A process that was killed made some of it, and synced none."""
    disk = SimulatedDisk()
    disk.makedir("/srv/one/log"[: (4, 8, 12)[made - 1]])
    log = Log(LogOptions("/srv/one/log", 4096, 4), disk)
    put(log, b"a")
    again = Log(LogOptions("/srv/one/log", 4096, 4), uncut(disk))
    assert read_all(again) == [b"a"]


@pytest.mark.parametrize("operations", range(1, 6))
@pytest.mark.parametrize("writeback_fails", [False, True])
def test_what_is_delivered_after_a_kill_is_there_after_a_power_cut(operations: int, writeback_fails: bool) -> None:
    """Written, not synced, read back from the page cache by the next process: it must be written again first."""
    disk = killed_in_a_commit(operations, writeback_fails=writeback_fails)
    delivered = read_all(opened(disk))
    assert delivered == ([b"a" * 1000] if operations > 1 else [])
    assert read_all(opened(uncut(disk))) == delivered


def killed_in_a_commit(operations: int, *, writeback_fails: bool) -> SimulatedDisk:
    disk = SimulatedDisk()
    log = opened(disk)
    log.append(b"", b"a" * 1000, 1, 0)
    commit = log.commit()
    assert commit is not None
    disk.operations_left = operations
    try:
        commit.flush()
    except PowerCut:
        pass
    disk.after_kill(writeback_fails=writeback_fails)
    return disk


def test_a_cut_while_it_is_written_again_takes_nothing() -> None:
    """Nobody knows whether it was promised. So it is never overwritten, not even with the same bytes."""
    for operations in range(40):
        disk = killed_in_a_commit(1000, writeback_fails=False)
        disk.operations_left = operations
        try:
            opened(disk)
        except PowerCut:
            pass
        for image in images(disk, Random(operations), 40):
            on_disk = any(path.endswith(".wal") for path in image.files)
            assert read_all(opened(disk.like_this(image.files))) == [b"a" * 1000] * on_disk


def test_a_cursor_that_had_to_be_made_anew_holds() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    put(log, *[b"b" * 1000] * 5)
    log.abandon()
    disk.unlink("/log/cursor")
    disk.sync_directory("/log")
    log = opened(disk)
    log.ack(1, 2)
    checkpoint(log)
    log = opened(uncut(disk))
    assert log.low == 2
    assert log.gaps == []


def test_what_only_an_empty_chunk_knew_how_to_read_stays_readable() -> None:
    """Its own header is gone; the chunk behind it knows, and is removed, since no record is in it."""
    disk = SimulatedDisk()
    log = opened(disk)
    put(log, b"a" * 3000)
    put(log, b"b" * 3000)
    log.close()
    first, second = sorted(path for path in disk.sizes() if path.endswith(".wal"))
    for path, damage in ((first, bytes(160)), (second, bytes(3000))):
        fd = disk.open(path)
        disk.write(fd, [damage], 0 if path == first else 160)
        disk.sync(fd)
        disk.close(fd)
    for _ in range(3):
        log = opened(disk)
        assert read_all(log) == [b"a" * 3000]
        log.abandon()
        disk = uncut(disk)


def test_its_name_is_safe_too_whoever_wrote_it() -> None:
    """A process that was killed renamed meta, and did not sync the name."""
    for operations in range(20):
        disk = SimulatedDisk()
        disk.operations_left = operations
        try:
            opened(disk)
        except PowerCut:
            pass
        disk.after_kill(writeback_fails=False)
        uuid = opened(disk).uuid
        again = opened(uncut(disk))
        assert (again.uuid, again.recovery.lines()) == (uuid, [])


def test_what_a_first_start_made_needs_no_mending() -> None:
    disk = SimulatedDisk()
    opened(disk)
    assert opened(uncut(disk)).recovery.lines() == []


def test_what_was_cut_stays_cut() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    put(log, b"first")
    checkpoint(log)  # which proves it, so the file is cut and not written again
    put(log, b"second" * 100)
    log.abandon()
    (path,) = [path for path in disk.sizes() if path.endswith(".wal")]
    fd = disk.open(path)
    disk.truncate(fd, disk.sizes()[path] - 10)
    disk.sync(fd)
    disk.close(fd)
    assert len(opened(disk).recovery.lines()) == 1
    assert opened(uncut(disk)).recovery.lines() == []


def test_what_is_larger_than_what_is_read_at_a_time_is_written_again_too() -> None:
    disk = SimulatedDisk()
    log = Log(LogOptions("/log", 1 << 20, 4), disk)
    log.append(b"", b"a" * 300_000, 1, 0)
    commit = log.commit()
    assert commit is not None
    commit.flush()
    disk.after_kill(writeback_fails=True)
    disk.inodes[log.directory.file(log.chunks[0].name)].synced = b""  # it was written, and its sync failed unheard
    assert read_all(Log(LogOptions("/log", 1 << 20, 4), disk)) == [b"a" * 300_000]
    again = Log(LogOptions("/log", 1 << 20, 4), uncut(disk))
    assert (read_all(again), again.recovery.lines()) == ([b"a" * 300_000], [])
