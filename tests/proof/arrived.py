"""Lives of two logs in a row, with the parts that a daemon adds to them, in virtual time. The second gets what the
first sends, by a straight way. Both are on one disk, so the power is cut at each operation of either of them.

After whatever cut: each event that the first log acked is in the second, or comes to it; and none is appended there
twice.
"""

import errno
import gc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Self

from connectors.wal import RunningLog, Wal
from tests.proof.judge import Broken, reported, without_the_newest
from tests.proof.proof import Effort, Story
from walflow.delivery import Arriving
from walflow.errors import DiskFull, FailStop, WalflowError
from walflow.event import Block
from walflow.receipt import Receipt
from walflow.testing import Fatal, MemoryDisk, MemoryInlet, MemoryOutlet, PowerCut, SimulatedDisk, VirtualScheduler
from walflow.testing.cuts import power_cut
from walflow.testing.disk import Kept
from walflow.testing.world import _Timer
from walflow.wal import Commit, Dropped, Log, Sync
from walflow.wal.arrivals import AHEAD
from walflow.wal.format import RECORD_PREFIX, RECORD_START, Record, pack_meta, record_size
from walflow.wal.range_reader import RangeReader, RecordSlice

EFFORT: Final = Effort((10, 4, 3, 2), (0.06, 0.05, 0.05))
SHAPES: Final = ((1024, 12), (2048, 8), (4096, 6))
PADS: Final = (0, 5, 0, 40, 5, 200, 0)
FIRST: Final = "/first"
SECOND: Final = "/second"
ARRIVALS: Final = f"{SECOND}/arrivals"
OTHER: Final = "test::other"
LOST: Final = ConnectionError("gone")


class FirstLog(Log):
    """Tells what it promises to its source."""

    promises: "ArrivedPromises"

    def committed(self, commit: Commit) -> None:
        super().committed(commit)
        self.promises.took(self, [record for record, _, _ in commit.entries])

    def synced(self, sync: Sync) -> None:
        super().synced(sync)
        self.promises.took(self, [])


class SecondLog(Log):
    """Tells what it has, and what it gives up."""

    promises: "ArrivedPromises"

    def committed(self, commit: Commit) -> None:
        super().committed(commit)
        for record, _, _ in commit.entries:
            self.promises.has(record)

    def drop_oldest(self, tag_bytes: int, payload_bytes: int) -> list[Dropped]:
        dropped = super().drop_oldest(tag_bytes, payload_bytes)
        for one in dropped:
            self.promises.gave_up(one.first, one.last)
        return dropped


class Plan(NamedTuple):
    """`other`: a second sink of the first log, in the same lane. The select on the way takes out each event whose
    number leaves `without`, divided by `by`."""

    first: Wal
    second: Wal
    by: int
    without: int
    other: bool
    log: type[SecondLog]
    arriving: type[Arriving]

    def wants(self, number: int) -> bool:
        return number % self.by != self.without


class ArrivedPromises:
    """Of events, by their number. `acked`: by the first log, which may not lose them. `unsynced`: acked by one that
    is relaxed, with their positions. `had`: those that are in the second log, with their positions. `done`: of them,
    those that need not come any more. `unsure`: the disk has failed to write what the page cache has. `told`: found
    in the second log then. `not_written`: it has done so once; where a start had no room for a copy, some may be
    gone, and are then reported. `repeatable`: those that may be in it twice; `repeats`: all of them may."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.given = 0
        self.acked: set[int] = set()
        self.unsynced: dict[int, int] = {}
        self.had: dict[int, int] = {}
        self.done: set[int] = set()
        self.told: dict[int, int] = {}
        self.repeatable: set[int] = set()
        self.repeats = self.unsure = self.not_written = False

    def copy(self) -> Self:
        other = type(self)(self.plan)
        other.given = self.given
        other.acked = set(self.acked)
        other.unsynced = dict(self.unsynced)
        other.had = dict(self.had)
        other.done = set(self.done)
        other.told = dict(self.told)
        other.repeatable = set(self.repeatable)
        other.repeats, other.unsure, other.not_written = self.repeats, self.unsure, self.not_written
        return other

    @property
    def key(self) -> Hashable:
        sets = map(frozenset, (self.acked, self.done, self.repeatable, self.told))
        return hash((*sets, tuple(self.had.items()), self.repeats))

    # what happens

    def give(self, count: int) -> list[bytes]:
        """So many new events."""
        first, self.given = self.given, self.given + count
        return [line(number) for number in range(first, self.given)]

    def took(self, log: Log, records: Sequence[Record]) -> None:
        """The first log has written these records; what it has synced is acked to its source for good."""
        for record in records:
            self.unsynced |= {number: position for position, number in numbered(record)}
        synced = {number for number, position in self.unsynced.items() if position <= log.synced_up_to}
        self.acked |= synced
        for number in synced:
            del self.unsynced[number]

    def has(self, record: Record) -> None:
        """It is durable in the second log."""
        for position, number in numbered(record):
            before = self.had.get(number, position)
            if before != position and not (self.repeats or number in self.repeatable):
                raise Broken(f"event {number} is at position {before} of the second log, and again at {position}")
            self.had[number] = position

    def gave_up(self, first: int, last: int) -> None:
        self.done |= {number for number, position in self.had.items() if first <= position <= last}

    def power_gone(self) -> None:
        self.unsynced.clear()
        self.unsure = False

    def lost_of_first(self) -> None:
        """Files of the first log are gone, or are older ones."""
        self.acked &= self.had.keys()
        self.power_gone()
        self.told.clear()

    def restored_first(self) -> None:
        """What its copy has may come again, from other positions."""
        self.lost_of_first()
        self.repeatable |= set(range(self.given))

    # what must be

    def judge(self, disk: MemoryDisk) -> None:
        self.power_gone()
        try:
            row = Row(self, disk)
        except (WalflowError, OSError) as error:
            raise Broken(f"it does not open: {error}") from error
        try:
            row.drain()
            self.complete(row)
            row.give(3)
            row.give(1)
            row.drain()
            self.complete(row)
        except BaseException as error:
            void()
            if isinstance(error, Fatal):
                raise Broken(str(error)) from error
            raise
        finally:
            row.abandon()

    def complete(self, row: "Row") -> None:
        missing = {number for number in self.acked if self.plan.wants(number)} - self.had.keys()
        if missing:
            what = f"{len(missing)} events that the first log acked are not in the second"
            raise Broken(f"{what}, the first of them {min(missing)}: {row.first}, {row.second}")

    def found(self, log: Log, disk: MemoryDisk) -> None:
        """The second log was opened. What it had is there, unless its sink has acked it."""
        records = list(records_of(log))
        there = {number: position for record in records for position, number in numbered(record)}
        gone = {number for number in self.had.keys() - self.done if there.get(number) != self.had[number]}
        if gone:
            gone -= {number for number in gone & self.told.keys() if self.told[number] in reported(log, disk)}
        if gone and not self.repeatable >= gone and not self.repeats:
            number = min(gone)
            raise Broken(f"event {number} was at position {self.had[number]} of the second log, and is gone: {log}")
        for number in self.had.keys() - self.done - there.keys():
            del self.had[number]
        if log.gaps:
            if not self.not_written:
                raise Broken(f"nothing was lost, and it says: {log.gaps[0]}")
            self.repeats = True  # after a loss its file does not count
        fresh = there.keys() - self.had.keys()
        for record in records:
            self.has(record)
        if self.unsure:
            self.told |= {number: there[number] for number in fresh}
        if log.unsafe_from is not None:
            self.repeatable |= {number for number, position in there.items() if position >= log.unsafe_from}


def line(number: int) -> bytes:
    return b"%d %s" % (number, b"y" * PADS[number * 5 % len(PADS)])


def numbered(record: Record) -> Iterator[tuple[int, int]]:
    """The positions of its events, and their numbers."""
    events = record.payload.splitlines()
    if len(events) != record.count:
        raise Broken(f"position {record.position} has {len(events)} events, and {record.count} positions")
    for position, event in enumerate(events, record.position):
        number = int(event.partition(b" ")[0])
        if event != line(number):
            raise Broken(f"position {position} is no event that was given")
        yield position, number


def records_of(log: Log) -> Iterator[Record]:
    """All that its files have, also what is acked."""
    if not log.chunks:
        return
    scan = RangeReader(log).begin(log.chunks[0].first, log.durable + 1)
    try:
        while (found := scan.next()) is not None:
            if isinstance(found, RecordSlice):
                yield from _unpacked(found.data)
    finally:
        scan.close()


def _unpacked(data: bytes) -> Iterator[Record]:
    at = 0
    while at < len(data):
        _, length, position, ingest_ns, _, count, _, tag_size, _, _ = RECORD_PREFIX.unpack_from(data, at)
        body = data[at + RECORD_START : at + RECORD_START + length]
        yield Record(position, count, body[:tag_size], body[tag_size:], ingest_ns)
        at += record_size(length)


class OneThread(VirtualScheduler):
    """Of one of the logs: while it is `holding`, what it is to do waits, and the other log goes on."""

    def __init__(self, shared: VirtualScheduler) -> None:
        super().__init__()
        self._shared = shared

    def time(self) -> float:
        return self._shared.time()

    def awake(self) -> float:
        return self._shared.awake()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._shared.call_soon(call)

    def call_later(self, delay: float, call: Callable[[], None]) -> _Timer:
        return self._shared.call_later(delay, call)

    def submit(
        self, job: Callable[[], None], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        super().submit(job, done, urgent=urgent)
        self._shared.call_soon(self._next)

    def _next(self) -> None:
        if not self.holding:
            self._work_one()

    def go_on(self, *, one: bool = False) -> None:
        """`one`: of what waits, and no more."""
        self.holding = one
        waiting = self.in_air + len(self.urgent)
        for _ in range(min(waiting, 1) if one else waiting):
            self._shared.call_soon(self._work_one)

    def _work_one(self) -> None:
        if self.urgent:
            self.work_urgent()
        elif self.in_air:
            self.work()


class Between(MemoryOutlet):
    """The way from the first log to the second: a select, and beside it another sink."""

    def __init__(self, scheduler: VirtualScheduler, plan: Plan, inlet: MemoryInlet) -> None:
        super().__init__(scheduler, name="first")
        self.beside: list[Block] = []
        self._plan = plan
        self._inlet = inlet

    def send(self, block: Block) -> bool:
        if not super().send(block):
            return False
        self.sent.clear()
        block.receipt.fork(int(self._plan.other))
        if self._plan.other:
            self.beside += block.lacked_by(OTHER)
        for part in block.lacked_by(self._inlet.name):
            self._pass_on(part)
        return True

    def _pass_on(self, block: Block) -> None:
        events = block.frames.payloads()
        wanted = [at for at, event in enumerate(events) if self._plan.wants(int(event.partition(b" ")[0]))]
        if not wanted:
            block.receipt.ack()
        elif len(wanted) == len(events):
            self._inlet.give(block)
        else:
            receipt = block.receipt.pick(wanted)
            self._inlet.give(block.picked(wanted, block.frames.picked(wanted), block.codec, receipt))


class Guarded(MemoryInlet):
    """Of the second log: its breaker stops the first one."""

    before: Between

    def trigger(self, reason: str) -> None:
        super().trigger(reason)
        self.before.pause()

    def restore(self) -> None:
        super().restore()
        self.before.resume()


class Row:
    """One start of both logs. What the second sends waits in `last.sent`, what goes beside it in `between.beside`."""

    def __init__(self, promises: ArrivedPromises, disk: MemoryDisk) -> None:
        self._promises = promises
        self._plan = plan = promises.plan
        self._given: list[Receipt] = []
        self.scheduler = VirtualScheduler()
        self.threads = first, second = OneThread(self.scheduler), OneThread(self.scheduler)
        self._source = MemoryInlet(first, name="test::first")
        inlet = Guarded(second, behind_log=True, straight=True)
        self.between = inlet.before = Between(first, plan, inlet)
        self.last = MemoryOutlet(second, name="second")
        opened: list[Log] = []
        try:
            self.second = plan.log(plan.second.options(), disk)
            opened.append(self.second)
            self.second.promises = promises
            promises.found(self.second, disk)
            self.arriving = self._arriving(inlet)
            self.first = FirstLog(plan.first.options(), disk)
            opened.append(self.first)
            self.first.promises = promises
            self._running = [
                RunningLog(plan.second, self.second, inlet, self.last, self.arriving),
                RunningLog(plan.first, self.first, self._source, self.between),
            ]
        except BaseException:
            for log in opened:
                log.abandon()
            raise

    def _arriving(self, inlet: MemoryInlet) -> Arriving:
        arriving = self._plan.arriving(self.second, inlet)
        try:
            arriving.open()
        except DiskFull:  # as the log says then: what comes may come twice
            self._promises.repeats = True
        return arriving

    def give(self, count: int) -> None:
        """A block of so many events."""
        block = self._source.lines_of(*self._promises.give(count))
        self._given.append(block.receipt)
        self._source.give(block)

    def ack(self, blocks: Sequence[Block]) -> None:
        """The sink of the second log does, of what it has been sent."""
        for block in blocks:
            self.last.sent.remove(block)
            self._promises.done.update(int(event.partition(b" ")[0]) for event in block.frames.payloads())
            block.receipt.ack("test::last")

    def ack_beside(self) -> None:
        while self.between.beside:
            self.between.beside.pop(0).receipt.ack(OTHER)

    def fail_beside(self) -> None:
        """The first log sends it again, and to this sink alone, as long as it runs."""
        failed, self.between.beside = self.between.beside, []
        for block in failed:
            block.receipt.fail(LOST, 0, OTHER)

    def go_on(self) -> None:
        for thread in self.threads:
            thread.go_on()
        self.scheduler.run()

    def drain(self) -> None:
        """Until the second log has all that the first has."""
        self.go_on()
        for trial in range(20):
            self.scheduler.run()
            self.ack_beside()
            self.scheduler.run()
            if self.first.low == self.first.durable and not any(receipt.pending for receipt in self._given):
                return
            if trial:
                self.ack(self.last.sent[:])
            self.scheduler.advance(1.1)
        raise Broken(f"it does not go on: {self.first}, {self.second}")

    def close(self) -> None:
        self.go_on()
        self.stop()
        self.scheduler.run()
        for log in (self.first, self.second):
            log.close()

    def stop(self) -> None:
        for one in self._running:
            one.stop()

    def abandon(self) -> None:
        """The process is gone, and with it what its sinks have."""
        self.stop()
        for block in [*self.last.sent, *self.between.beside]:
            block.receipt.settled, block.receipt.pending = _settled, 0
        for log in (self.first, self.second):
            log.abandon()


def void() -> None:
    """Settles the receipts of a process that is gone. A power cut may have left one in the middle of a call."""
    for one in gc.get_objects():
        if type(one) is Receipt and one.pending:
            one.settled, one.pending = _settled, 0


def _settled(receipt: Receipt) -> None: ...


class Failing:
    """The next such operation fails, of a file whose path begins so, and then no more."""

    def __init__(
        self, disk: SimulatedDisk, promises: ArrivedPromises, operation: str, number: int, path: str = ""
    ) -> None:
        self._disk = disk
        self._promises = promises
        self._operation = operation
        self._number = number
        self._path = path

    def __call__(self, operation: str, path: str) -> int | None:
        if operation != self._operation or not path.startswith(self._path):
            return None
        self._disk.fault = None
        if path == ARRIVALS:  # space is more urgent: what is deleted now may come again
            self._promises.repeats = True
        return self._number


def _stuck(operation: str, path: str) -> int | None:
    """The first log goes on, and what it has acked is not on disk."""
    return errno.ENOSPC if operation == "write" and path == f"{FIRST}/cursor" else None


class Arrived:
    """`steps` steps that the seed chooses."""

    def __init__(
        self,
        seed: int,
        steps: int = 40,
        *,
        effort: Effort = EFFORT,
        log: type[SecondLog] = SecondLog,
        arriving: type[Arriving] = Arriving,
    ) -> None:
        dice = self._dice = Random(seed)
        self.name = f"arrived {seed}"
        relaxed, damaged = seed % 6 == 4, seed % 6 == 2
        self.kind = f"arrived{', relaxed' if relaxed else ', damaged' if damaged else ''}"
        self.effort = effort
        self.disk = SimulatedDisk(
            {f"{FIRST}/meta": pack_meta(b"first of two log"), f"{SECOND}/meta": pack_meta(b"the other of two")}
        )
        by = dice.choice((1, 1, 2, 3))
        self.promises = ArrivedPromises(
            Plan(
                _wal(FIRST, dice.choice(SHAPES), sync=dice.choice(("interval", "never")) if relaxed else "always"),
                _wal(SECOND, dice.choice(SHAPES), on_full="drop_oldest" if seed % 7 == 0 else "block"),
                by,
                without=1,
                other=dice.random() < 0.4,
                log=log,
                arriving=arriving,
            )
        )
        self._steps = steps
        self._running: Row | None = None
        self._copy: Mapping[str, Kept] | None = None
        self._is_full = False  # the disk will be, when the next process starts after it has failed
        self._acts: list[Callable[[], object]] = [
            *[self._give] * 6,
            *[lambda: self._now().scheduler.advance(dice.choice((0.0, 0.11, 0.6, 1.2, 2.0)))] * 4,
            *[self._ack] * 4,
            *[self._hold] * 2,
            *([self._beside] * 2 if self.promises.plan.other else []),
            self._stick,
            self._much,
            *[self._end] * 2,
            *[self._trouble] * 2,
            *([self._damage] if damaged else []),
        ]

    def live(self) -> None:
        for _ in range(self._steps):
            self._do(self._dice.choice(self._acts))
        self.disk.fault = self.disk.capacity = None
        self.disk.operations_left = -1
        self._do(lambda: self._now().drain())
        self._do(lambda: self.promises.complete(self._now()))
        self._gone()

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except PowerCut:
            self._cut()
        except Fatal as fatal:
            if not isinstance(fatal.__cause__, FailStop):
                raise Broken(str(fatal)) from fatal
            self._failed()
        except FailStop:
            self._failed()

    def _now(self) -> Row:
        if self._running is None:
            self.disk.failures = 0
            try:
                self._running = Row(self.promises, self.disk)
            except (WalflowError, OSError) as error:
                if not self.disk.failures:
                    raise Broken(f"it does not open: {error}") from error
                self.disk.fault = self.disk.capacity = None
                raise FailStop("it may refuse to open on a disk that fails") from error
        return self._running

    def _give(self) -> None:
        for _ in range(self._dice.choice((1, 1, 2, 4))):
            self._now().give(self._dice.choice((1, 1, 2, 6)))
        self._now().scheduler.run()

    def _ack(self) -> None:
        """In order, mostly."""
        row, dice = self._now(), self._dice
        first = dice.choice((0, 0, 0, 1, 3))
        row.ack(row.last.sent[first : first + dice.choice((1, 3, 50))])
        row.scheduler.run()

    def _hold(self) -> None:
        """What a thread does takes its time."""
        row, dice = self._now(), self._dice
        thread = dice.choice(row.threads)
        if not thread.holding:
            thread.holding = True
        else:
            thread.go_on(one=dice.random() < 0.7)
        row.scheduler.run()

    def _beside(self) -> None:
        row = self._now()
        row.fail_beside() if self._dice.random() < 0.4 else row.ack_beside()
        row.scheduler.run()

    def _stick(self) -> None:
        self.disk.fault = None if self.disk.fault is _stuck else _stuck

    def _much(self) -> None:
        """As if so much had been committed that the file must cover more."""
        self._now().arriving._arrivals.grown(AHEAD)

    def _end(self) -> None:
        how = self._dice.choice(("close", "kill", "kill", "cut", "cut soon", "cut soon"))
        if how == "cut soon":
            self.disk.operations_left = self._dice.randint(0, 30)
        elif how == "cut":
            self._cut()
        elif how == "kill":
            self._kill()
        else:
            self._close()

    def _close(self) -> None:
        row = self._now()
        row.close()
        failed = any(log.failure for log in (row.first, row.second))
        self._gone()
        if failed:
            raise FailStop("of a close")
        self._well()
        if self._copy is None:
            self._copy = {path: kept for path, kept in self.disk.snapshot().items() if path.startswith(FIRST)}

    def _trouble(self) -> None:
        what = self._dice.choice(("full", "space again", "no space", "broken", "not written back"))
        if what == "full":
            self.disk.capacity = self.disk.used() + self._dice.choice((0, 100, 700))
        elif what == "space again":
            self.disk.capacity = None
        elif what == "not written back":
            chunks = f"{self._dice.choice((FIRST, SECOND, SECOND))}/0"
            self.disk.fault = Failing(self.disk, self.promises, "sync", errno.EIO, chunks)
            self._is_full = True
            self._give()
            self._now().scheduler.advance(0.2)
        else:
            operation, number = {
                "no space": (self._dice.choice(("write", "rename", "allocate", "create")), errno.ENOSPC),
                "broken": (self._dice.choice(("sync", "write", "sync_directory")), errno.EIO),
            }[what]
            self.disk.fault = Failing(self.disk, self.promises, operation, number)

    def _damage(self) -> None:
        """Of the first log: its newest file is gone, or all are those of a copy."""
        self._kill()
        files = self.disk.snapshot()
        if self._copy is not None and self._dice.random() < 0.5:
            rest = {path: kept for path, kept in files.items() if not path.startswith(FIRST)}
            self.disk.become({**rest, **self._copy})
            self.promises.restored_first()
        else:
            self.disk.become(without_the_newest(files, FIRST, emptied=self._dice.random() < 0.5))
            self.promises.lost_of_first()

    def _kill(self) -> None:
        self._gone()
        self._well()
        self.disk.after_kill(writeback_fails=False)

    def _failed(self) -> None:
        """The process has ended, since the disk failed. It may be full, too, when the next one starts."""
        self._gone()
        self._well()
        self.disk.after_kill(writeback_fails=True)
        self.promises.unsure = self.promises.not_written = True
        if self._is_full or self._dice.random() < 0.3:
            self._is_full = False
            self.disk.capacity = self.disk.used()

    def _cut(self) -> None:
        """The power is cut, and comes back."""
        self._gone()
        self._well()
        self.promises.power_gone()
        power_cut(self.disk, self._dice)

    def _well(self) -> None:
        self.disk.fault = self.disk.capacity = None
        self.disk.failures = 0

    def _gone(self) -> None:
        self._running = None
        void()


def _wal(path: str, shape: tuple[int, int], **settings: str) -> Wal:
    return Wal.model_validate({"path": path, "chunk_size": shape[0], "max_chunks": shape[1], **settings})


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"arrived": Arrived}
