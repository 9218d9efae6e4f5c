"""Lives of a log, to be cut short anywhere: one that does what its seed says."""

import errno
from collections.abc import Callable
from random import Random
from typing import Final

from tests.proof.judge import Broken, LogPromises, OpenLog, without_the_newest
from tests.proof.proof import USUAL, Effort, Story
from walflow.errors import DiskFull, FailStop, WalflowError
from walflow.testing.cuts import power_cut
from walflow.testing.disk import Kept, PowerCut, SimulatedDisk
from walflow.wal import Commit, Log, LogOptions, Reader
from walflow.wal.format import CHUNK_START, RECORD_START, pack_meta
from walflow.wal.tools.skip import skip

PATH: Final = "/log"
SHAPES: Final = ((1024, 8), (1024, 1), (1024, 3), (2048, 4), (4096, 2), (1536, 6))
LARGE: Final = ((65536, 2), (65536, 3))  # these are preallocated, and recycled


class Life:
    """One log on one disk, and what the world is promised of it. Every step may end in PowerCut."""

    def __init__(self, disk: SimulatedDisk, options: LogOptions, dice: Random, open_log: OpenLog = Log) -> None:
        self.disk = disk
        self.dice = dice
        self.promises = LogPromises(options, open_log)
        self.flying: Commit | None = None
        self._killed = False
        self._unwell = False  # since the log was last open, the disk may have lost what was written
        self._log: Log | None = None
        self._reader: Reader | None = None

    @property
    def log(self) -> Log:
        if self._log is None:
            try:
                killed = self._killed and not self._unwell
                self._log, self._reader = self.promises.reopen(self.disk, killed=killed)
                self._unwell = False
            except Broken as broken:
                if not isinstance(broken.__cause__, WalflowError) or not self.disk.failures:
                    raise
                raise FailStop("it may refuse to open on a disk that fails") from broken
        return self._log

    def append(self, payload: bytes, tag: bytes = b"", positions: int = 1) -> bool:
        if not self.log.fits(len(tag), len(payload)):
            return False
        self.promises.append(self.log, tag, payload, positions)
        return True

    def commit(self) -> bool:
        """False: the disk is full, and the same commit is tried again next time."""
        if self.flying is None:
            self.flying = self.log.commit()
        if self.flying is not None:
            try:
                self.flying.flush()
            except DiskFull:
                return False
            self.log.committed(self.flying)
            self.promises.committed(self.log, self.flying)
            self.flying = None
        return True

    def put(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.append(payload)
        self.commit()

    def ack(self, first: int, last: int) -> None:
        self.promises.ack(self.log, first, min(last, self.log.durable))

    def checkpoint(self, *, force: bool = False) -> None:
        one = self.log.checkpoint(force=force)
        if one is None:
            return
        try:
            one.flush()
        except DiskFull:
            self.disk.fault = self.disk.capacity = None
            one.flush()
        self.log.checkpointed(one)
        self.promises.note(self.log.durable)

    def sync(self) -> None:
        """Of a relaxed log; another one has nothing to sync."""
        sync = self.log.sync()
        if sync is not None:
            sync.flush()
            self.log.synced(sync)
            self.promises.synced(self.log)

    def drop_oldest(self, size: int) -> None:
        """Gives up what is oldest, where an event of that size wants its place."""
        for dropped in self.log.drop_oldest(0, size):
            self.promises.ack(self.log, dropped.first, dropped.last)

    def skip(self, first: int, last: int) -> None:
        """As an operator does, while no daemon has the log."""
        log = self.log
        self.promises.skip(first, last)
        skip(log, first, last, "an operator")

    def read(self, max_bytes: int) -> None:
        """On from where the reader is; what comes is what was appended."""
        log = self.log
        assert self._reader is not None
        for record in self._reader.read(max_bytes):
            if self.promises.appended[record.position] != (record.count, record.tag, record.payload):
                raise Broken(f"position {record.position} is not what was appended: {log}")

    def read_again(self) -> None:
        """What failed comes again: from the first that is not acked."""
        assert self.log is not None
        if self._reader is not None:
            self._reader.close()
        self._reader = self.log.reader()

    def alter(self, change: Callable[[dict[str, bytes]], object]) -> None:
        """While nobody has the log, its files change: `change` gets them by name, without the directory."""
        before = self.disk.snapshot()
        start = len(self.promises.options.path) + 1
        files = {path[start:]: kept.data for path, kept in before.items() if kept.data is not None}
        change(files)
        after: dict[str, bytes | Kept] = {path: kept for path, kept in before.items() if kept.data is None}
        after |= {f"{self.promises.options.path}/{name}": data for name, data in files.items()}
        self.disk.become(after)
        self.promises.damaged = True
        self.gone()

    def lose_the_newest(self, *, emptied: bool) -> None:
        """While nobody has the log, its newest file goes, or what is in it."""
        self.disk.become(without_the_newest(self.disk.snapshot(), self.promises.options.path, emptied=emptied))
        self.promises.lose_the_newest()
        self._killed = False  # that is more than a kill
        self.gone()

    def close(self) -> None:
        self.log.close()
        self.gone()

    def restart(self, *, writeback_fails: bool = False) -> None:
        """The process is killed, and another one starts."""
        self._well_again()
        self.disk.after_kill(writeback_fails=writeback_fails)
        if writeback_fails:
            self.promises.lost_in_the_cache()
        self._killed = True
        self._unwell |= writeback_fails

    def cut(self) -> None:
        """The power is cut, and comes back."""
        self._well_again()
        self._unwell = True
        power_cut(self.disk, self.dice)

    def _well_again(self) -> None:
        self.disk.fault = self.disk.capacity = None
        self.disk.failures = 0
        self._killed = False
        self.gone()

    def gone(self) -> None:
        self._log = self._reader = self.flying = None


def retaining(options: LogOptions, seed: int) -> LogOptions:
    """With a history. Its dice are its own, so that the other stories stay what they are."""
    dice = Random(seed)
    return options._replace(
        retain_bytes=dice.choice((1, 2000, 20_000, 1 << 30)), retain_ns=dice.choice((None, None, 1, 10**9, 10**18))
    )


class Generated:
    """`steps` steps that the seed chooses, at sizes around every edge there is."""

    def __init__(self, seed: int, steps: int = 60, *, effort: Effort = USUAL, open_log: OpenLog = Log) -> None:
        dice = self._dice = Random(seed)
        large = seed % 12 == 11
        self.name = f"generated {seed}"
        self.kind = "generated, large" if large else "generated, relaxed" if seed % 6 == 4 else "generated"
        self.effort = Effort((6, 3, 2, 2), (0.1, 0.1, 0.1)) if large else effort
        shape = dice.choice(LARGE if large else SHAPES)
        # its uuid is known, so that images of two stories are never distinct by that alone
        self.disk = SimulatedDisk({f"{PATH}/meta": pack_meta(b"a log of the dice")} if seed % 5 else {})
        self.disk.preallocates = large
        options = LogOptions(PATH, *shape, cache_bytes=dice.choice((0, 3000)))
        if seed % 6 == 4:
            options = options._replace(sync=dice.choice(("interval", "never")))
        if seed % 4 == 1:
            options = retaining(options, seed)
        self._life = Life(self.disk, options, dice, open_log)
        self._steps = steps
        self._acts: list[Callable[[], object]] = [
            *[self._append] * 5,
            *[self._life.commit] * 3,
            *[self._ack] * 3,
            *[self._life.checkpoint] * 2,
            lambda: self._life.checkpoint(force=True),
            lambda: self._life.read(dice.choice((1, 500, 1 << 20))),
            self._life.read_again,
            self._life.sync,
            lambda: self._life.drop_oldest(dice.choice((10, 500, 2000))) if seed % 7 == 0 else None,
            *[self._end] * (1 if seed % 3 else 2),
            self._trouble,
        ]

    @property
    def promises(self) -> LogPromises:
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
        for _ in range(self._dice.choice((1, 1, 2, 5))):
            size = self._size()
            tag = b"t" * self._dice.choice((0, 0, 0, 1, 7, 100))
            self._life.append(self._dice.randbytes(size), tag[:size], self._dice.choice((1, 1, 1, 2, 10)))

    def _size(self) -> int:
        log, dice = self._life.log, self._dice
        edge = dice.choice(("small", "small", "sector", "chunk", "rest", "rest", "budget"))
        if edge == "small":
            return dice.choice((0, 1, 7, 8, 9, 60, 100, 200, 300))
        if edge == "sector":
            size = 512 * dice.randint(1, 3) - RECORD_START
        elif edge == "chunk":
            size = self.promises.options.chunk_size - CHUNK_START - RECORD_START
        elif edge == "rest" and log.chunks:
            size = log.chunks[-1].capacity - log.chunks[-1].end - RECORD_START
        else:
            size = min(log.max_record, log.budget - log.used - CHUNK_START - RECORD_START)
        return max(0, size + dice.choice((-9, -8, -7, -1, 0, 1, 8)))

    def _ack(self) -> None:
        """Some in order, some out of order, some that are acked already or do not exist yet."""
        log, dice = self._life.log, self._dice
        first = dice.choice((log.low + 1, log.low + dice.randint(1, 9), dice.randint(1, log.durable + 2)))
        self._life.ack(first, first + dice.choice((0, 0, 1, 3, 10, 50)))

    def _end(self) -> None:
        how = self._dice.choice(("close", "kill", "writeback", "cut", "cut soon", "cut soon"))
        if how == "close":
            if self._life.flying is None:
                self._life.close()
        elif how == "cut":
            self._life.cut()
        elif how == "cut soon":
            self.disk.operations_left = self._dice.randint(0, 12)
        else:
            self._life.restart(writeback_fails=how == "writeback")

    def _trouble(self) -> None:
        """A disk that is full, for a while or at one operation, or whose sync fails."""
        what = self._dice.choice(("full", "space again", "no descriptor", "no space", "broken"))
        if what == "full":
            self.disk.capacity = self.disk.used() + self._dice.choice((0, 100, 700))
        elif what == "space again":
            self.disk.capacity = None
        else:
            operation, number = {
                "no descriptor": ("create", errno.EMFILE),
                "no space": (self._dice.choice(("write", "rename", "truncate", "allocate", "create")), errno.ENOSPC),
                "broken": (self._dice.choice(("sync", "write", "sync_directory")), errno.EIO),
            }[what]
            self.disk.fault = Once(self.disk, operation, number)


class Once:
    """Fails the next such operation, and then no more."""

    def __init__(self, disk: SimulatedDisk, operation: str, number: int) -> None:
        self._disk = disk
        self._operation = operation
        self._number = number

    def __call__(self, operation: str, path: str) -> int | None:
        if operation != self._operation:
            return None
        self._disk.fault = None
        return self._number


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"generated": Generated}
