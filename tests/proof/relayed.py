"""Lives of a log as `relay` uses it, in virtual time: blocks are committed and acked, the cursor is written when
`Checkpoints` says so. What was committed a second ago the cursor must know:
if the newest file vanishes, it is named."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from tests.proof.judge import Broken, LogPromises
from tests.proof.proof import Effort, Story
from tests.proof.stories import PATH, Life
from walflow.delivery import Checkpoints, LogSink, Syncing
from walflow.delivery.tag import Tags
from walflow.event import Block
from walflow.receipt import Receipt
from walflow.testing.disk import PowerCut, SimulatedDisk
from walflow.testing.world import Fatal, MemoryInlet, VirtualScheduler
from walflow.wal import Commit, Log, LogOptions
from walflow.wal.format import pack_meta

EFFORT: Final = Effort((12, 4, 3, 3), (0.08, 0.05, 0.05))
SHAPES: Final = ((1024, 12), (2048, 8), (4096, 6))
NOTED_WITHIN: Final = 1.0  # seconds after a commit
SYNC_SECONDS: Final = 0.3  # with `sync = "interval"`

Hear = Callable[[int, int, bytes, bytes], None]


class HeardLog(Log):
    """Tells of each record before it is written: whatever a power cut leaves of it was appended."""

    hear: Hear | None = None

    def append(self, tag: bytes, payload: bytes, count: int, ingest_ns: int, ref: object = None) -> int:
        position = super().append(tag, payload, count, ingest_ns, ref)
        if self.hear is not None:
            self.hear(position, count, tag, payload)
        return position


class RelayedLife:
    """One start of the log, until it is closed, killed or cut."""

    def __init__(self, log: Log, promises: LogPromises, checkpoints: type[Checkpoints], sync: str) -> None:
        self.log = log
        self._promises = promises
        self.scheduler = VirtualScheduler()
        self._inlet = MemoryInlet(self.scheduler)
        self._blocks: list[Block] = []
        self._committed: deque[tuple[float, int]] = deque()  # when, and up to which position
        self._checkpoints = checkpoints(log, self.scheduler, self._inlet, lambda: self._writer.room())
        self._syncing = Syncing(log, self._inlet, SYNC_SECONDS, self._synced) if sync == "interval" else None
        self._writer = LogSink(log, self._inlet, Tags(), _nothing, self._checkpoints, self._on_commit)
        self._inlet.serve(self._writer.accept)
        if isinstance(log, HeardLog):
            log.hear = promises.heard

    def give(self, *payloads: bytes) -> None:
        """A block each, in one commit. If the log is full, all of it is acked first."""
        if self._inlet.breaker is not None:
            self.ack(1, self.log.durable)
            self.advance(0.2)
        blocks = [self._inlet.lines_of(payload) for payload in payloads]
        self._blocks += blocks
        self._inlet.give(*blocks)
        self.scheduler.run()

    def ack(self, first: int, last: int) -> None:
        self._promises.ack(self.log, first, min(last, self.log.durable))
        self._checkpoints.acked()

    def advance(self, seconds: float) -> None:
        self.scheduler.advance(seconds)
        while self._committed and self._committed[0][0] <= self.scheduler.time() - NOTED_WITHIN:
            self._promises.note(self._committed.popleft()[1])

    def end(self) -> None:
        """Nothing is begun any more. The blocks that wait are no one's: their process is gone."""
        self._checkpoints.stop()
        self._writer.stop()
        if self._syncing is not None:
            self._syncing.stop()
        for block in self._blocks:
            block.receipt.settled = _settled
            block.receipt.pending = 0

    def _on_commit(self, commit: Commit) -> None:
        self._promises.committed(self.log, commit)
        self._committed.append((self.scheduler.time(), commit.last))
        if self._syncing is not None:
            self._syncing.written()

    def _synced(self) -> None:
        self._promises.synced(self.log)
        self._checkpoints.acked()


class Relayed:
    """`steps` steps that the seed chooses; a second after the last of them the newest file vanishes."""

    def __init__(
        self, seed: int, steps: int = 30, *, effort: Effort = EFFORT, checkpoints: type[Checkpoints] = Checkpoints
    ) -> None:
        dice = self._dice = Random(seed)
        self.name = f"relayed {seed}"
        self.kind = "relayed, relaxed" if seed % 4 == 3 else "relayed"
        self.effort = effort
        self.disk = SimulatedDisk({f"{PATH}/meta": pack_meta(b"a relay of dice ")})
        options = LogOptions(PATH, *dice.choice(SHAPES), cache_bytes=0)
        if seed % 4 == 3:
            options = options._replace(sync=dice.choice(("interval", "never")))
        self._life = Life(self.disk, options, dice, HeardLog)
        self._checkpoints = checkpoints
        self._steps = steps
        self._running: RelayedLife | None = None
        self._acts: list[Callable[[], None]] = [
            *[self._give] * 5,
            *[lambda: self._now().advance(dice.choice((0.0, 0.05, 0.2, 0.5, 1.0, 2.0)))] * 4,
            self._ack,
            self._end,
        ]

    @property
    def promises(self) -> LogPromises:
        return self._life.promises

    def live(self) -> None:
        for _ in range(self._steps):
            self._do(self._dice.choice(self._acts))
        self._do(lambda: self._now().advance(NOTED_WITHIN))
        self._do(self._lose_the_newest)
        self._do(self._give)
        self._gone()

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PowerCut:
            self._gone()
            self._life.cut()
        except Fatal as fatal:  # a promise was broken while the scheduler's thread worked, or the log gave up
            raise Broken(str(fatal)) from fatal

    def _now(self) -> RelayedLife:
        if self._running is None:
            log = self._life.log
            self._running = RelayedLife(log, self.promises, self._checkpoints, self.promises.options.sync)
        return self._running

    def _give(self) -> None:
        dice = self._dice
        size = dice.choice((0, 5, 60, 300, 700))
        self._now().give(*[dice.randbytes(size).hex().encode() for _ in range(dice.choice((1, 1, 3)))])

    def _ack(self) -> None:
        running, dice = self._now(), self._dice
        first = running.log.low + dice.choice((1, 1, 2, 5))
        running.ack(first, first + dice.choice((0, 1, 9)))

    def _end(self) -> None:
        how = self._dice.choice(("close", "kill", "cut", "cut soon"))
        if how == "cut soon":
            self.disk.operations_left = self._dice.randint(0, 9)
            return
        self._gone()
        if how == "close":
            self._life.close()
        elif how == "kill":
            self._life.restart()
        else:
            self._life.cut()

    def _lose_the_newest(self) -> None:
        """The process is killed, and the file is gone or empty: what the cursor knows of it is named."""
        self._gone()
        self._life.restart()
        self._life.lose_the_newest(emptied=self._dice.random() < 0.5)
        self._now()

    def _gone(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


def _settled(receipt: Receipt) -> None: ...


def _nothing() -> None: ...


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"relayed": Relayed}
