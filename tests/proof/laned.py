"""Lives of a log with two or three lanes: each acks on its own, and what it has acked is stored beside the cursor.

After whatever cut: what a lane has not acked it gets. What it had acked before a checkpoint that the disk has taken does
not come to it again, as long as the cursor knows these positions.
"""

import errno
from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Final, Self

from tests.proof.judge import Broken, LogPromises, positions, reported
from tests.proof.proof import USUAL, Effort, Story
from tests.proof.stories import PATH, SHAPES, Life, Once
from walflow.errors import FailStop
from walflow.testing.disk import MemoryDisk, PowerCut, SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.cursor import Acked
from walflow.wal.format import pack_meta

FLOWS: Final = (("near", "far"), ("near", "far", "odd"), ("far", "odd"), ("near",))

OpenLanes = Callable[[LogOptions, MemoryDisk, Sequence[str]], "LogOfLanes"]


class LogOfLanes(Log):
    def __init__(self, options: LogOptions, disk: MemoryDisk, lanes: Sequence[str]) -> None:
        super().__init__(options, disk)
        self.of = dict(zip(lanes, self.part([lane.split("+") for lane in lanes]), strict=True))


class LanePromises(LogPromises):
    """`lanes`: those of the flow. By lane, `acked`: what it has acked of what is promised, and `stored`: what a checkpoint
    says of that, which the disk has taken."""

    def __init__(self, options: LogOptions, open_log: OpenLanes, lanes: Sequence[str]) -> None:
        super().__init__(options, lambda options, disk: open_log(options, disk, self.lanes))
        self._open_lanes = open_log
        self.lanes = lanes
        self.acked: dict[str, frozenset[int]] = {}
        self.stored: dict[str, frozenset[int]] = {}

    def copy(self) -> Self:
        other = super().copy()
        other.acked, other.stored = dict(self.acked), dict(self.stored)
        return other

    def another(self) -> Self:
        return type(self)(self.options, self._open_lanes, self.lanes)

    @property
    def key(self) -> Hashable:
        of_lanes = [tuple(sorted(of.items())) for of in (self.acked, self.stored)]
        return hash((super().key, tuple(self.lanes), *of_lanes))

    def ack_in(self, log: LogOfLanes, lane: str, first: int, last: int) -> None:
        last = min(last, log.durable)
        log.of[lane].ack(first, last)
        self._note(lane, {position for position in self.promised | self.unsafe if first <= position <= last})

    def ack(self, log: Log, first: int, last: int) -> None:
        super().ack(log, first, last)
        for lane in self.lanes:
            self._note(lane, {position for position in self.done if first <= position <= last})

    def save(self) -> None:
        """A single lane has no mark: it goes by the cursor, whose newer slot a cut in a start may garble."""
        several = self.lanes if len(self.lanes) > 1 else ()
        self.stored = {lane: self.acked.get(lane, frozenset()) for lane in several}

    def has(self, marks: Mapping[str, Acked]) -> None:
        """It is made with these marks, and they are on disk."""
        for lane, mark in marks.items():
            self._note(lane, {position for position in self.promised if not mark.missing(position, position)})
        self.save()

    def relink(self, lanes: Sequence[str]) -> None:
        """A lane that comes anew begins at the cursor: it may have what it acked before, or not."""
        self.lanes = lanes
        self.stored = {lane: known for lane, known in self.stored.items() if lane in lanes}
        self._settle()

    def _note(self, lane: str, acked: set[int]) -> None:
        self.acked[lane] = self.acked.get(lane, frozenset()) | acked
        self._settle()

    def _settle(self) -> None:
        in_all = frozenset.intersection(*(self.acked.get(lane, frozenset()) for lane in self.lanes))
        self.done |= in_all & (self.promised | self.unsafe)
        self.promised -= in_all
        self.unsafe -= in_all

    def _says_what_is(self, log: Log, disk: MemoryDisk, found: set[int]) -> None:
        assert isinstance(log, LogOfLanes)
        super()._says_what_is(log, disk, found)
        delivered = {lane: found & positions(mark.unacked(1, log.durable)) for lane, mark in log.of.items()}
        # of another lane too: marks that say more than the cursor knows are all removed
        known = max(frozenset().union(*self.stored.values()), default=0) <= self.noted
        for lane, came in delivered.items():
            missing = self.promised - self.acked.get(lane, frozenset()) - came
            excused = missing if self.damaged else missing & self.told
            if missing := missing - (excused & reported(log, disk)):
                raise Broken(f"lane {lane} misses {len(missing)} events, the first at position {min(missing)}: {log}")
            again = self.stored.get(lane, frozenset()) & came
            if again and known and not log.relaxed:
                raise Broken(f"position {min(again)} comes again to lane {lane}, which had acked it: {log}")
        if not positions(log.unacked(1, log.durable)) <= set[int]().union(*delivered.values()):
            raise Broken(f"some positions are delivered to no lane, and are not acked: {log}")
        for lane, came in delivered.items():  # one that is not in the flow now keeps what it has acked
            self.acked[lane] = frozenset(found - came) | (self.acked.get(lane, frozenset()) & self.done - came)
        self.stored = {lane: known - delivered.get(lane, set()) for lane, known in self.stored.items()}

    def _is_backlog(self, log: Log, events: int) -> bool:
        """The cursor alone was read then. The marks may say more."""
        return log.recovery.backlog >= events


class LanedLife(Life):
    promises: LanePromises

    def __init__(
        self, disk: SimulatedDisk, options: LogOptions, dice: Random, lanes: Sequence[str], open_log: OpenLanes
    ) -> None:
        super().__init__(disk, options, dice)
        self.promises = LanePromises(options, open_log, lanes)

    def ack_in(self, lane: str, first: int, last: int) -> None:
        log = self.log
        assert isinstance(log, LogOfLanes)
        self.promises.ack_in(log, lane, first, last)

    def checkpoint(self, *, force: bool = False) -> None:
        failures = self.disk.failures
        super().checkpoint(force=force)
        if self.disk.failures == failures:
            self.promises.save()

    def close(self) -> None:
        failures = self.disk.failures
        log = self.log
        super().close()
        if self.disk.failures == failures and log.failure is None:
            self.promises.save()


class Laned:
    """`steps` steps that the seed chooses."""

    def __init__(
        self, seed: int, steps: int = 50, *, effort: Effort = USUAL, open_log: OpenLanes = LogOfLanes
    ) -> None:
        dice = self._dice = Random(seed)
        self.name = f"laned {seed}"
        self.kind = "laned, relaxed" if seed % 6 == 4 else "laned, relinked" if seed % 3 == 0 else "laned"
        self.effort = effort
        self.disk = SimulatedDisk({f"{PATH}/meta": pack_meta(b"a log with lanes")})
        options = LogOptions(PATH, *dice.choice(SHAPES), cache_bytes=dice.choice((0, 3000)))
        if seed % 6 == 4:
            options = options._replace(sync=dice.choice(("interval", "never")))
        life = self._life = LanedLife(self.disk, options, dice, dice.choice(FLOWS[:3]), open_log)
        self._steps = steps
        self._acts: list[Callable[[], object]] = [
            *[self._append] * 4,
            *[life.commit] * 3,
            *[self._ack_in] * 5,
            *[life.checkpoint] * 3,
            lambda: life.checkpoint(force=True),
            lambda: life.drop_oldest(dice.choice((10, 500, 2000))) if seed % 7 == 0 else None,
            lambda: life.ack(life.log.low + 1, life.log.low + dice.choice((1, 3, 20))),
            life.sync,
            self._end,
            self._trouble,
            *([self._relink] if seed % 3 == 0 else []),
        ]

    @property
    def promises(self) -> LanePromises:
        return self._life.promises

    def live(self) -> None:
        for _ in range(self._steps):
            try:
                self._dice.choice(self._acts)()
            except PowerCut:
                self._life.cut()
            except FailStop:
                self._life.restart(writeback_fails=True)

    def _append(self) -> None:
        dice = self._dice
        for _ in range(dice.choice((1, 1, 2, 5))):
            self._life.append(dice.randbytes(dice.choice((0, 8, 60, 200))), b"", dice.choice((1, 1, 2, 10)))

    def _ack_in(self) -> None:
        """In order, mostly: as sinks ack."""
        log, dice = self._life.log, self._dice
        assert isinstance(log, LogOfLanes)
        lane = dice.choice(self.promises.lanes)
        first = log.of[lane].low + dice.choice((1, 1, 1, 2, 7))
        self._life.ack_in(lane, first, first + dice.choice((0, 1, 3, 10, 50)))

    def _end(self) -> None:
        how = self._dice.choice(("close", "close", "kill", "cut", "cut soon", "cut soon"))
        if how == "close":
            if self._life.flying is None:
                self._life.close()
        elif how == "cut":
            self._life.cut()
        elif how == "cut soon":
            self.disk.operations_left = self._dice.randint(0, 12)
        else:
            self._life.restart()

    def _relink(self) -> None:
        """Another flow file: lanes come, go, and are parted."""
        if self._life.flying is None:
            self._life.close()
            self.promises.relink(self._dice.choice(FLOWS))

    def _trouble(self) -> None:
        what = self._dice.choice(("full", "space again", "no space"))
        if what == "full":
            self.disk.capacity = self.disk.used() + self._dice.choice((0, 100, 700))
        elif what == "space again":
            self.disk.capacity = None
        else:
            operation = self._dice.choice(("write", "write", "rename", "allocate", "create"))
            self.disk.fault = Once(self.disk, operation, errno.ENOSPC)


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"laned": Laned}
