"""The building of a log out of another one's records: there is the whole log, with what each lane has acked, or none,
and then it can be built again."""

from collections.abc import Callable, Hashable
from random import Random
from typing import Final, Self

from tests.proof.judge import Appended, Broken, positions
from tests.proof.laned import LanePromises, LogOfLanes
from tests.proof.proof import Effort, Story
from walflow.errors import WalflowError
from walflow.testing.disk import MemoryDisk, SimulatedDisk
from walflow.wal import LogOptions
from walflow.wal.cursor import Acked
from walflow.wal.format import Record
from walflow.wal.tools.build import Builder

PATH: Final = "/srv/log"
UUID: Final = b"a log of another"
OPTIONS: Final = LogOptions(PATH, 1024, 64, 0)
EFFORT: Final = Effort((8, 3, 2), (0.1, 0.1))


class Export:
    """What its seed says: records of all sizes, several events in some, some acked, some by one of several lanes
    alone, some in no record any more."""

    def __init__(self, dice: Random) -> None:
        self.records: list[Record] = []
        self.ranges: list[tuple[int, int]] = []
        self.lanes = dice.choice((("near",), ("near", "far"), ("near", "far", "odd")))
        self.marked: dict[str, list[tuple[int, int]]] = {lane: [] for lane in self.lanes if len(self.lanes) > 1}
        self.low = dice.choice((0, 0, 3, 2000))
        position = self.low + 1
        for _ in range(dice.randint(0, 9)):
            count = dice.choice((1, 1, 3))
            fate = dice.choice(("acked", "gone", "waits", "waits", "waits"))
            if fate != "waits":
                self.ranges.append((position, position + count - 1))
            if fate != "gone":
                payload = dice.randbytes(dice.choice((0, 1, 300, 900, 2000)))
                self.records.append(Record(position, count, b"t" * dice.choice((0, 5)), payload, 7))
                for ranges in self.marked.values():
                    if dice.random() < 0.4:
                        ranges.append((position, position + dice.randrange(count)))
            position += count
        self.durable = position - 1

    @property
    def acked(self) -> Acked:
        return Acked(self.low, self.ranges)

    @property
    def marks(self) -> dict[str, Acked]:
        return {lane: Acked(self.low, ranges) for lane, ranges in self.marked.items()}

    def build(self, disk: MemoryDisk) -> None:
        builder = Builder(PATH, UUID, self.acked, OPTIONS.chunk_size, disk)
        for record in self.records:
            builder.add(record)
        builder.finish(self.durable, self.marks)


class ImportPromises:
    """`log`: once it is there. `told`: the command has said that it is."""

    def __init__(self, export: Export) -> None:
        self.export = export
        self.told = False
        self.log = LanePromises(OPTIONS, LogOfLanes, export.lanes)
        acked = export.acked
        for position, count, tag, payload, _ in export.records:
            self.log.appended[position] = Appended(count, tag, payload)
            self.log.promised |= positions(acked.missing(position, position + count - 1))
        self.log.noted = self.log.noted_twice = export.durable
        self.log.has(export.marks)

    @property
    def key(self) -> Hashable:
        return self.told, self.log.key

    def copy(self) -> Self:
        other = type(self)(self.export)
        other.told = self.told
        other.log = self.log.copy()
        return other

    def judge(self, disk: MemoryDisk) -> None:
        if not disk.names(PATH):
            if self.told:
                raise Broken("the log was imported, and is gone")
            try:
                self.export.build(disk)
            except (WalflowError, OSError) as error:
                raise Broken(f"it cannot be imported again: {error}") from error
        self.told = True
        if disk.names("/srv") != ["log"]:
            raise Broken(f"there is more than the log: {disk.names('/srv')}")
        self.log.judge(disk)


class Import:
    kind = "import"

    def __init__(self, seed: int, effort: Effort = EFFORT) -> None:
        self.name = f"import {seed}"
        self.disk = SimulatedDisk()
        self.disk.makedir("/srv")
        self.disk.sync_directory("/")
        self.effort = effort
        self._export = Export(Random(seed))
        self.promises = ImportPromises(self._export)

    def live(self) -> None:
        self._export.build(self.disk)
        self.promises.told = True


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"import": Import}
