"""Do the proofs bite? A disk or a log with one thing wrong must break a promise, in few images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.proof.arrived import Arrived, SecondLog
from tests.proof.imports import Import
from tests.proof.judge import Broken
from tests.proof.laned import Laned, LogOfLanes
from tests.proof.proof import Effort, Proof
from tests.proof.relayed import Relayed
from tests.proof.repair_promises import Repair
from tests.proof.scripts import SCRIPTS, scripted
from tests.proof.sidecar import FilePromises, Sidecar
from tests.proof.stories import Generated
from walflow.delivery import Arriving, Checkpoints
from walflow.event import Block
from walflow.testing import MemoryDisk, SimulatedDisk
from walflow.wal import Checkpoint, Commit, Gap, Log, LogOptions, Mark
from walflow.wal.arrivals import Provenance, UpstreamPositions
from walflow.wal.cursor import Acked
from walflow.wal.marks import Marks

pytestmark = pytest.mark.test

SKIPPED = next(number for number in range(len(SCRIPTS)) if scripted(number).name.startswith("skipped ("))


def a_disk_that_lies(*lies: str) -> Callable[[SimulatedDisk], None]:
    def spoil(disk: SimulatedDisk) -> None:
        disk.lies = frozenset(lies)

    return spoil


def a_disk_that_spoils_neighbours(disk: SimulatedDisk) -> None:
    disk.spoils_neighbours = True


@pytest.mark.parametrize(
    "spoil",
    [a_disk_that_lies("sync"), a_disk_that_lies("sync_directory"), a_disk_that_spoils_neighbours],
    ids=["sync lies", "sync_directory lies", "neighbours"],
)
@pytest.mark.parametrize("source", [Generated, Sidecar])
def test_a_disk_that_is_worse_than_what_the_log_is_made_for(
    source: Callable[[int], Any], spoil: Callable[[SimulatedDisk], None]
) -> None:
    def tell() -> None:
        for seed in range(30):
            story = source(seed)
            spoil(story.disk)
            Proof(story, Random(seed)).run()

    with pytest.raises(Broken):
        tell()


@pytest.mark.nightly
@pytest.mark.parametrize("lie", ["sync", "sync_directory"])
@pytest.mark.parametrize("source", [Import, Repair, lambda seed: scripted(SKIPPED)], ids=["import", "repair", "skip"])
def test_an_operator_on_a_disk_that_lies(source: Callable[[int], Any], lie: str) -> None:
    story = source(0)
    story.disk.lies = frozenset({lie})
    with pytest.raises(Broken):
        Proof(story, Random(0)).run()


class CommitsBeforeTheSync(Log):
    """Its source is told while the bytes are in the page cache."""

    def commit(self) -> Commit | None:
        commit = super().commit()
        if commit is not None:
            commit._relaxed = True
        return commit


class UnlinksBeforeTheCursor(Log):
    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        checkpoint = super().checkpoint(force=force)
        if checkpoint is not None and checkpoint.dropped:
            checkpoint._directory.unlink(checkpoint.dropped[0].name)
            checkpoint._directory.sync_names()
        return checkpoint


class ForgetsAnAck(Log):
    """A position that nobody acked goes with its neighbour."""

    def ack(self, first: int, last: int) -> None:
        super().ack(first, last + 1)


class GivesPositionsAgain(Log):
    def _start(self) -> None:
        super()._start()
        self.next = max(1, self.next - 1)


class GoesOnInTheOldChunk(Log):
    """What a failed write-back may have left in the page cache alone is not written again."""

    def _start(self) -> None:
        # a patch: what is wrong with it is the test
        with patch("walflow.wal.opening.recovery.settle", lambda directory, tail: False):
            super()._start()


class NeverSyncsNames(Log):
    def __init__(self, options: LogOptions, disk: MemoryDisk) -> None:
        sync = disk.sync_directory
        disk.sync_directory = lambda path: sync(path) if path == "/" else None  # type: ignore[method-assign]
        super().__init__(options, disk)


class SaysNothing(Log):
    """Of what it cannot read."""

    def lose(self, gap: Gap, pages: object) -> bool:
        return not self.acked.add(gap.first, gap.last)


class LosesTheLowest(Log):
    def _start(self) -> None:
        super()._start()
        if self.durable > self.low + 5:
            self.acked = Marks(self.low + 1)


BROKEN = [
    CommitsBeforeTheSync,
    UnlinksBeforeTheCursor,
    ForgetsAnAck,
    GivesPositionsAgain,
    GoesOnInTheOldChunk,
    NeverSyncsNames,
    SaysNothing,
    LosesTheLowest,
]


@pytest.mark.nightly
@pytest.mark.parametrize("broken", BROKEN)
def test_a_log_with_one_thing_wrong(broken: type[Log]) -> None:
    quick = Effort((6, 3), (0.1,))

    def tell() -> None:
        for seed in range(1, len(SCRIPTS)):
            Proof(Generated(seed, effort=quick, open_log=broken), Random(seed)).run()
            Proof(scripted(seed, broken), Random(seed)).run()

    with pytest.raises(Broken):
        tell()


class SaysALaneHasMore(LogOfLanes):
    """Another lane's ack is stored as its own."""

    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        for own in self.acked.lanes:
            own.add(1, max(one.low for one in self.acked.lanes))
        return super().checkpoint(force=force, short=short)


class ForgetsTheMarks(LogOfLanes):
    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int | None] = {}) -> Sequence[Mark]:
        self._mark_file.stored = {}
        return super().part(lanes, begins)


class NeverSyncsMarks(LogOfLanes):
    """Its file is written, and the power takes it."""

    def __init__(self, options: LogOptions, disk: MemoryDisk, lanes: Sequence[str]) -> None:
        super().__init__(options, disk, lanes)
        sync = self.directory.sync
        self.directory.sync = lambda name, fd: None if name == "marks" else sync(name, fd)  # type: ignore[method-assign]


class DeletesByOneLane(LogOfLanes):
    """What the first lane has acked is acked in the log."""

    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        if self.acked.lanes:
            Acked.add(self.acked, 1, self.acked.lanes[0].low)
        return super().checkpoint(force=force, short=short)


class MergesByOneSink(LogOfLanes):
    """A lane begins at what its first sink has."""

    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int | None] = {}) -> Sequence[Mark]:
        stored = self._mark_file.stored
        self._mark_file.stored = {
            sink: stored[one] for one, *sinks in lanes if one in stored for sink in (one, *sinks)
        }
        return super().part(lanes, begins)


class ForgetsWhoWasAhead(LogOfLanes):
    """A sink that is merged has the mark of its lane from then on."""

    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int | None] = {}) -> Sequence[Mark]:
        marks = super().part(lanes, begins)
        for sinks in self._mark_file._lanes:
            for sink in sinks:
                sink._stored = None
        return marks


class KeepsNoMarkOfASinkThatIsMerged(LogOfLanes):
    """A lane of several begins at the cursor."""

    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int | None] = {}) -> Sequence[Mark]:
        self._mark_file.stored = {name: mark for name, mark in self._mark_file.stored.items() if [name] in lanes}
        return super().part(lanes, begins)


LANED_SEEDS = (15, *range(24))  # the first one is what the rarest of them needs


@pytest.mark.nightly
@pytest.mark.parametrize(
    "broken",
    [
        *(SaysALaneHasMore, ForgetsTheMarks, NeverSyncsMarks, DeletesByOneLane),
        *(MergesByOneSink, ForgetsWhoWasAhead, KeepsNoMarkOfASinkThatIsMerged),
    ],
)
def test_lanes_with_one_thing_wrong(broken: type[LogOfLanes]) -> None:
    def tell() -> None:
        for seed in LANED_SEEDS:
            Proof(Laned(seed, effort=Effort((6, 3), (0.1,)), open_log=broken), Random(seed)).run()

    with pytest.raises(Broken):
        tell()


class ForgetsArrivals(Arriving):
    """It makes the file, and reads neither that nor the records."""

    def open(self) -> None:
        self._arrivals.forget()
        self._arrivals.make()


class ReadsTheFileAlone(Arriving):
    def open(self) -> None:
        self._arrivals.make()


class ReadsTheRecordsAlone(Arriving):
    def open(self) -> None:
        self._arrivals.forget()
        super().open()


class RemembersBeforeItAppends(Arriving):
    """The file may have been written when the power takes what was to be appended."""

    def fresh(self, block: Block) -> Iterator[Block]:
        for part in super().fresh(block):
            if (came := self._came(part)) is not None:
                self._arrivals.add(came)
            yield part


class KnowsNoTerms(Arriving):
    """A position is taken for the event that had it before."""

    def _came(self, block: Block) -> Provenance | None:
        came = super()._came(block)
        return None if came is None else came._replace(term=0)


class NeverSyncsArrivals(SecondLog):
    def remember_arrivals(self) -> UpstreamPositions:
        sync = self.directory.sync
        self.directory.sync = lambda name, fd: None if name == "arrivals" else sync(name, fd)  # type: ignore[method-assign]
        return super().remember_arrivals()


class WritesArrivalsBehindTheDeletion(SecondLog):
    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        checkpoint = super().checkpoint(force=force, short=short)
        if checkpoint is not None:
            checkpoint._arrivals, checkpoint._marks = None, checkpoint._arrivals
        return checkpoint


class TakesTheCacheForTheDisk(SecondLog):
    """What the disk failed to write, and had no room for, counts as known."""

    def _start(self) -> None:
        super()._start()
        self.unsafe_from = None


class DeletesBeforeItHasRead(SecondLog):
    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        self._unread = False
        return super().checkpoint(force=force, short=short)


SEEDS = (23, *range(40))  # the first one is what the rarest of them needs


@pytest.mark.nightly
@pytest.mark.parametrize(
    "broken",
    [ForgetsArrivals, ReadsTheFileAlone, ReadsTheRecordsAlone, RemembersBeforeItAppends, KnowsNoTerms],
)
def test_what_arrives_with_one_thing_wrong(broken: type[Arriving]) -> None:
    def tell() -> None:
        for seed in SEEDS:
            Proof(Arrived(seed, effort=Effort((3,), ()), arriving=broken), Random(seed)).run()

    with pytest.raises(Broken):
        tell()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "broken", [TakesTheCacheForTheDisk, NeverSyncsArrivals, WritesArrivalsBehindTheDeletion, DeletesBeforeItHasRead]
)
def test_a_second_log_with_one_thing_wrong(broken: type[SecondLog]) -> None:
    def tell() -> None:
        for seed in SEEDS:
            Proof(Arrived(seed, effort=Effort((3,), ()), log=broken), Random(seed)).run()

    with pytest.raises(Broken):
        tell()


class HearsOfNoCommit(Checkpoints):
    """The cursor follows acks alone."""

    def committed(self) -> None: ...


def test_a_cursor_that_does_not_follow_commits() -> None:
    with pytest.raises(Broken, match="its newest file is "):
        Proof(Relayed(0, checkpoints=HearsOfNoCommit), Random(0)).run()


def test_what_is_said_of_a_broken_promise() -> None:
    story = Generated(3)
    story.disk.lies = frozenset({"sync"})
    with pytest.raises(Broken, match=r"promised events are gone, .*<Log .*generated 3: operation \d+, .* of what"):
        Proof(story, Random(3)).run()


def test_the_file_must_have_each_event_once() -> None:
    promises = FilePromises()
    disk = MemoryDisk({"/out.log": b"1 one\n1 one\n"})
    promises.events[1] = b"1 one\n"
    with pytest.raises(Broken, match="twice"):
        promises.intact(disk)
    promises.acked.add(1)
    with pytest.raises(Broken, match="event 1 was acked and is not in the file"):
        promises.intact(MemoryDisk())
    with pytest.raises(Broken, match="is no event"):
        promises.intact(MemoryDisk({"/out.log": b"1 one\nelse\n"}))
