"""A flow with other links has other lanes. Each sink keeps what it has acked: nothing of it comes again to a lane of
which all sinks have it, and no sink misses an event. Against a model that keeps a set for each sink."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.wal.tools import checkpoint, put
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.wal import Log, LogOptions, Mark
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.mark_file import MAGIC, NAME
from walflow.wal.slot_file import SlotFile

SINKS = ("near", "far", "odd", "a+b", "a", "b")
Lanes = Sequence[Sequence[str]]
Acks = Sequence[tuple[int, int, int]]
THREE: Lanes = [["near"], ["far"], ["odd"]]
MERGED: Lanes = [["near", "far"], ["odd"]]


@st.composite
def flows(draw: st.DrawFn) -> Lanes:
    """Some of the sinks, in lanes."""
    places = draw(st.dictionaries(st.sampled_from(SINKS), st.integers(0, 3), min_size=1))
    order = sorted(places, key=lambda sink: (places[sink], SINKS.index(sink)))
    return [list(sinks) for _, sinks in groupby(order, key=places.__getitem__)]


acks = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 15)), max_size=6)
lives = st.lists(st.tuples(flows(), acks, acks, st.booleans()), min_size=2, max_size=6)


class Model:
    """`file` and `cursor`: on disk."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.file: dict[str, set[int]] = {}
        self.cursor = set[int]()
        self._has: dict[str, set[int]] = {}  # by sink
        self._of: list[set[int]] = []  # by lane
        self._changed = True

    def open(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.log = Log(LogOptions("/log", 1 << 16, 16), self.disk)
        put(self.log, *[b"."] * 8)
        self.marks = self.log.part(lanes)
        self._has = {sink: self.file.get(sink, set()) | self.cursor for sinks in lanes for sink in sinks}
        self._of = [set[int].intersection(*(self._has[sink] for sink in sinks)) for sinks in lanes]
        self._changed = self.log.acked.changes > 0 or not self.file  # a start may have added what it gave up

    def check(self) -> None:
        for mark, of in zip(self.marks, self._of, strict=True):
            assert positions(self.log, mark) == of

    def ack(self, what: Acks) -> None:
        for lane, first, size in what:
            at = lane % len(self.lanes)
            last = min(first + size, self.log.durable)
            if first <= last:
                self.marks[at].ack(first, last)
                self._of[at] |= set(range(first, last + 1))
                self._changed = True

    def store(self) -> None:
        self.cursor |= set[int].intersection(*self._of)
        if len(self.lanes) > 1 and self._changed:
            self.file = {
                sink: self._has[sink] | of for sinks, of in zip(self.lanes, self._of, strict=True) for sink in sinks
            }
            self._changed = False


def positions(log: Log, mark: Mark) -> set[int]:
    lacks = {at for low, high in mark.unacked(1, log.durable) for at in range(low, high + 1)}
    return set(range(1, log.durable + 1)) - lacks


@settings(deadline=None, max_examples=examples(200))
@given(lives)
def test_each_sink_keeps_what_it_has(lives: Sequence[tuple[Lanes, Acks, Acks, bool]]) -> None:
    model = Model()
    for lanes, before, after, closed in lives:
        model.open(lanes)
        model.check()
        model.ack(before)
        checkpoint(model.log)
        model.store()
        model.ack(after)
        model.check()
        if closed:
            model.log.close()
            model.store()
        else:
            model.log.abandon()


def relinked(
    disk: MemoryDisk, lanes: Lanes, begins: Mapping[str, int | None] = {}
) -> dict[str, list[tuple[int, int]]]:
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    marks = log.part(lanes, begins)
    found = {"+".join(sinks): mark.unacked(1, log.durable) for sinks, mark in zip(lanes, marks, strict=True)}
    log.close()
    return found


def acked(lanes: Lanes, *of: int) -> MemoryDisk:
    """A log of 10 events, of which each lane has acked so many."""
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    marks = log.part(lanes)
    put(log, *[b"."] * 10)
    for mark, last in zip(marks, of, strict=True):
        mark.ack(1, last)
    log.close()
    return disk


def test_sinks_that_are_parted_keep_what_both_had() -> None:
    disk = acked([["near", "far"], ["odd"]], 8, 2)
    assert relinked(disk, [["near"], ["far"], ["odd"]]) == {"near": [(9, 10)], "far": [(9, 10)], "odd": [(3, 10)]}


def test_sinks_that_are_merged_begin_at_what_all_have() -> None:
    disk = acked([["near"], ["far"], ["odd"]], 8, 6, 2)
    assert relinked(disk, [["near", "far"], ["odd"]]) == {"near+far": [(7, 10)], "odd": [(3, 10)]}


def test_a_sink_that_is_new_begins_at_what_the_log_has() -> None:
    disk = acked([["near"], ["far"]], 8, 2)
    assert relinked(disk, [["near"], ["far"], ["new"]])["new"] == [(3, 10)]
    assert relinked(disk, [["near", "new"], ["far"]]) == {"near+new": [(3, 10)], "far": [(3, 10)]}


@pytest.mark.parametrize(
    ("begins", "gets"),
    [(None, []), (1, [(3, 10)]), (3, [(3, 10)]), (7, [(7, 10)]), (10, [(10, 10)]), (11, []), (99, [])],
)
def test_a_new_sink_begins_at_a_place(begins: int | None, gets: list[tuple[int, int]]) -> None:
    """But not before what the log still has. The others keep what they have, and so does the next start."""
    disk = acked([["near"], ["far"]], 8, 2)
    lanes: Lanes = [["near"], ["far"], ["new"]]
    for wanted in ({"new": begins, "near": 1}, {}, {"new": 1}):
        assert relinked(disk, lanes, wanted) == {"near": [(9, 10)], "far": [(3, 10)], "new": gets}


def test_a_new_sink_beside_one_that_was_alone_begins_at_a_place() -> None:
    disk = acked([["near"]], 8)
    assert relinked(disk, [["near"], ["new"]], {"new": None}) == {"near": [(9, 10)], "new": []}


def test_a_sink_that_was_merged_and_is_parted_again_has_what_it_had() -> None:
    """Also if the merged lane has stored its own mark meanwhile."""
    disk = acked([["near"], ["far"], ["odd"]], 6, 4, 2)
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    log.part([["near"], ["far"], ["odd"]])[0].ack(8, 8)
    log.close()
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    log.part([["near", "far"], ["odd"]])[0].ack(10, 10)
    log.close()
    parted = relinked(disk, [["near"], ["far"], ["odd"]])
    assert parted == {"near": [(7, 7), (9, 9)], "far": [(5, 9)], "odd": [(3, 10)]}


def test_the_name_of_a_sink_is_not_taken_for_that_of_a_lane() -> None:
    sinks: Lanes = [["near+far"], ["odd"]]
    assert relinked(acked(sinks, 8, 2), sinks) == {"near+far": [(9, 10)], "odd": [(3, 10)]}
    assert relinked(acked(sinks, 8, 2), MERGED) == {"near+far": [(3, 10)], "odd": [(3, 10)]}


def of_an_older_walflow() -> MemoryDisk:
    """Marks by the names of lanes: `near+far` has acked 8 events, `odd` 4."""
    disk = acked([["near", "far"], ["odd"]], 4, 4)
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    log.abandon()
    file = SlotFile(Directory("/log", disk), bytes.fromhex(log.uuid), NAME, MAGIC)
    file.read()
    file.save({"near+far": Acked(8), "odd": Acked(4)}).flush()
    file.close()
    return disk


def test_a_lane_uses_the_mark_that_an_older_walflow_gave_it() -> None:
    disk = of_an_older_walflow()
    assert relinked(disk, [["near", "far"], ["odd"]]) == {"near+far": [(9, 10)], "odd": [(5, 10)]}
    log = Log(LogOptions("/log", 1 << 16, 16), disk)
    log.part([["near", "far"], ["odd"]])[0].ack(10, 10)
    log.close()
    assert relinked(disk, [["near"], ["far"], ["odd"]]) == {"near": [(9, 9)], "far": [(9, 9)], "odd": [(5, 10)]}


@pytest.mark.parametrize("lanes", [[["near"], ["far"], ["odd"]], [["near+far"], ["odd"]], [["far", "near"], ["odd"]]])
def test_other_lanes_do_not(lanes: Lanes) -> None:
    """A sink may have a name like that of the lane."""
    assert set(map(tuple, relinked(of_an_older_walflow(), lanes).values())) == {((5, 10),)}


@pytest.mark.parametrize(("before", "then"), [(THREE, MERGED), (MERGED, THREE)])
def test_the_power_may_be_cut_at_any_operation(before: Lanes, then: Lanes) -> None:
    """Whatever is left of the files, and whatever the links are then: no lane has what one of its sinks has not.
    A commit that was cut may leave a torn record before a whole one. No sink has acked the torn record."""
    cut = 0
    for operations in range(3, 400, 2):
        disk = SimulatedDisk()
        has: dict[str, set[int]] = {sink: set() for sinks in before for sink in sinks}
        promised: set[int] = set()
        life(disk, before, has, promised, Random(operations)).close()
        disk.operations_left = operations
        try:
            life(disk, then, has, promised, Random(operations)).close()
        except PowerCut:
            cut += 1
        else:
            break
        for image in images(disk, Random(operations), 3):
            for lanes in (before, then):
                log = Log(LogOptions("/log", 4096, 64), disk.like_this(image.files))
                for sinks, mark in zip(lanes, log.part(lanes), strict=True):
                    both = set[int].intersection(*(has[sink] for sink in sinks))
                    assert positions(log, mark) & promised <= both
                log.abandon()
    assert cut > 20


def life(disk: SimulatedDisk, lanes: Lanes, has: dict[str, set[int]], promised: set[int], chance: Random) -> Log:
    log = Log(LogOptions("/log", 4096, 64), disk)
    marks = log.part(lanes)
    for _ in range(6):
        promised |= set(put(log, *[b"." * chance.randrange(300)] * chance.randrange(1, 4)))
        for sinks, mark in zip(lanes, marks, strict=True):
            first = chance.randrange(1, log.durable + 1)
            last = min(log.durable, first + chance.randrange(6))
            for sink in sinks:
                has[sink] |= set(range(first, last + 1))
            mark.ack(first, last)
        checkpoint(log)
    return log
