"""Lives of a log with two or three lanes: each acks on its own, and what it has acked is stored beside the cursor.

After whatever cut: what a lane has not acked it gets. What all of its sinks had acked before a checkpoint that the
disk has taken does not come to it again, as long as the cursor knows these positions. So it is too if the links are
others after the cut, and lanes are merged or parted.
"""

import errno
from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Final, Self

from tests.proof.judge import Broken, LogPromises, positions, reported
from tests.proof.proof import USUAL, Effort, Story
from tests.proof.stories import PATH, SHAPES, Life, Once, retaining
from walflow.errors import FailStop
from walflow.testing.disk import MemoryDisk, PowerCut, SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.cursor import Acked
from walflow.wal.format import pack_meta

FLOWS: Final = (("near", "far"), ("near", "far", "odd"), ("far", "odd"), ("near",))
MERGED: Final = (
    *(("near+far",), ("far+odd",)),
    *(("near+far", "odd"), ("near", "far+odd"), ("near+odd", "far"), ("near+far+odd",)),
)
KINDS: Final = ("laned, relinked", "laned", "laned", "laned, regrouped", "laned, relaxed", "laned")  # by the seed

OpenLanes = Callable[[LogOptions, MemoryDisk, Sequence[str]], "LogOfLanes"]


class LogOfLanes(Log):
    def __init__(self, options: LogOptions, disk: MemoryDisk, lanes: Sequence[str]) -> None:
        super().__init__(options, disk)
        self.of = dict(zip(lanes, self.part([of_lane(lane) for lane in lanes]), strict=True))


def of_lane(lane: str) -> Sequence[str]:
    return lane.split("+")


def sinks(lanes: Sequence[str]) -> list[str]:
    return sorted(sink for lane in lanes for sink in of_lane(lane))


def in_lanes(lanes: Sequence[str]) -> Sequence[Sequence[str]]:
    """All ways to have these sinks in lanes."""
    return [flow for flow in (*FLOWS, *MERGED) if sinks(flow) == sinks(lanes)]


class LanePromises(LogPromises):
    """`lanes`: those of the flow. `acked`, by lane and by sink: what it has acked of what is promised; a sink, in
    whatever lane. `stored`, by sink: what a checkpoint says of that, which the disk has taken. `regroups`: after each
    cut the links may be others."""

    def __init__(
        self, options: LogOptions, open_log: OpenLanes, lanes: Sequence[str], *, regroups: bool = False
    ) -> None:
        super().__init__(options, lambda options, disk: open_log(options, disk, self.lanes))
        self._open_lanes = open_log
        self.lanes = lanes
        self.regroups = regroups
        self.acked: dict[str, frozenset[int]] = {}
        self.stored: dict[str, frozenset[int]] = {}

    def copy(self) -> Self:
        other = super().copy()
        other.acked, other.stored = dict(self.acked), dict(self.stored)
        return other

    def another(self) -> Self:
        return type(self)(self.options, self._open_lanes, self.lanes, regroups=self.regroups)

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
        """A single lane has no mark: it goes by the cursor, whose newer slot a cut in a start may garble. The marks
        of an earlier flow stay."""
        if len(self.lanes) > 1:
            self.stored = {
                sink: self.stored.get(sink, frozenset()) | self.acked.get(lane, frozenset())
                for lane in self.lanes
                for sink in of_lane(lane)
            }

    def has(self, marks: Mapping[str, Acked]) -> None:
        """It is made with these marks, and they are on disk."""
        for lane, mark in marks.items():
            self._note(lane, {position for position in self.promised if not mark.missing(position, position)})
        self.save()

    def relink(self, lanes: Sequence[str]) -> None:
        """A lane begins at what all of its sinks have. The mark of a sink that is gone goes too, with the next ones
        that are stored: if it comes back, it may have what it acked before, or not."""
        self.acked |= {lane: in_all(self.acked, of_lane(lane)) for lane in lanes if lane not in self.lanes}
        self.lanes = lanes
        if len(lanes) > 1:
            self.stored = {sink: known for sink, known in self.stored.items() if sink in sinks(lanes)}
        self._settle()

    def judge(self, disk: MemoryDisk) -> None:
        if self.regroups:
            ways = in_lanes(self.lanes)
            self.relink(ways[(ways.index(tuple(self.lanes)) + len(self.promised)) % len(ways)])
        super().judge(disk)

    def _note(self, lane: str, acked: set[int]) -> None:
        for name in {lane, *of_lane(lane)}:
            self.acked[name] = self.acked.get(name, frozenset()) | acked
        self._settle()

    def _settle(self) -> None:
        acked = in_all(self.acked, self.lanes)
        self.done |= acked & (self.promised | self.unsafe)
        self.promised -= acked
        self.unsafe -= acked

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
            again = in_all(self.stored, of_lane(lane)) & came
            if again and known and not log.relaxed:
                raise Broken(f"position {min(again)} comes again to lane {lane}, which had acked it: {log}")
        if not positions(log.unacked(1, log.durable)) <= set[int]().union(*delivered.values()):
            raise Broken(f"some positions are delivered to no lane, and are not acked: {log}")
        for lane, came in delivered.items():  # a sink that is not in the flow now keeps what it has acked
            has = frozenset(found - came) | (self.acked.get(lane, frozenset()) & self.done - came)
            if len(of_lane(lane)) > 1:  # one of them may have more than all of them
                for sink in of_lane(lane):
                    self.acked[sink] = has | (self.acked.get(sink, frozenset()) & (self.done | found))
            self.acked[lane] = has
        if not known or log.relaxed:
            self.stored = {
                sink: self.stored.get(sink, frozenset()) - came
                for lane, came in delivered.items()
                for sink in of_lane(lane)
            }

    def _is_backlog(self, log: Log, events: int) -> bool:
        """The cursor alone was read then. The marks may say more."""
        return log.recovery.backlog >= events


def in_all(of: Mapping[str, frozenset[int]], names: Sequence[str]) -> frozenset[int]:
    return frozenset.intersection(*(of.get(name, frozenset()) for name in names))


class LanedLife(Life):
    promises: LanePromises

    def __init__(
        self,
        disk: SimulatedDisk,
        options: LogOptions,
        dice: Random,
        lanes: Sequence[str],
        open_log: OpenLanes,
        *,
        regroups: bool,
    ) -> None:
        super().__init__(disk, options, dice)
        self.promises = LanePromises(options, open_log, lanes, regroups=regroups)

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
        self.kind = KINDS[seed % len(KINDS)]
        regroups = self._regroups = self.kind == "laned, regrouped"
        self.effort = effort
        self.disk = SimulatedDisk({f"{PATH}/meta": pack_meta(b"a log with lanes")})
        options = LogOptions(PATH, *dice.choice(SHAPES), cache_bytes=dice.choice((0, 3000)))
        if self.kind == "laned, relaxed":
            options = options._replace(sync=dice.choice(("interval", "never")))
        if seed % 4 == 1:
            options = retaining(options, seed)
        life = self._life = LanedLife(
            self.disk, options, dice, FLOWS[1] if regroups else dice.choice(FLOWS[:3]), open_log, regroups=regroups
        )
        self._steps = steps
        self._acts: list[Callable[[], object]] = [
            *[self._append] * 4,
            *[life.commit] * 3,
            *[self._ack_in] * 5,
            *[life.checkpoint] * 3,
            lambda: life.checkpoint(force=True),
            lambda: life.drop_oldest(dice.choice((10, 500, 2000))) if seed % 7 == 0 else None,
            lambda: life.ack(life.log.low + 1, life.log.low + dice.choice((1, 3, 20))) if not regroups else None,
            life.sync,
            self._end,
            self._trouble,
            *([lambda: self._relink((*FLOWS, *MERGED))] if self.kind == "laned, relinked" else []),
            *([lambda: self._relink(in_lanes(self.promises.lanes))] if regroups else []),
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
        """In order, mostly: as sinks ack. Where lanes are to be merged the first one is ahead of the others."""
        log, dice = self._life.log, self._dice
        assert isinstance(log, LogOfLanes)
        lanes, most = self.promises.lanes, (0, 1, 3, 10, 50)
        lane = dice.choice((*lanes, *[lanes[0]] * 3) if self._regroups else lanes)
        first = log.of[lane].low + dice.choice((1, 1, 1, 2, 7))
        self._life.ack_in(lane, first, first + dice.choice(most[:3] if self._regroups else most))

    def _end(self) -> None:
        how = self._dice.choice(("close", "close", "kill", "cut", "cut soon", "cut soon"))
        if how == "cut soon":
            self.disk.operations_left = self._dice.randint(0, 12)
        else:
            self._stop(how)

    def _stop(self, how: str) -> bool:
        """False: not while a commit is to be tried again."""
        if how == "cut":
            self._life.cut()
        elif how == "kill":
            self._life.restart()
        elif self._life.flying is None:
            self._life.close()
        else:
            return False
        return True

    def _relink(self, flows: Sequence[Sequence[str]]) -> None:
        """Another flow file: sinks come and go, lanes are merged and parted."""
        if self._stop(self._dice.choice(("close", "close", "kill", "cut"))):
            self.promises.relink(self._dice.choice(flows))

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
