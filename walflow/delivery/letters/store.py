"""The letters of one sink on disk: a log of their own, in `letters/SINK` of the log that the sink's events are in.

    append  rejected events, and events that go to the sink again -> one commit for all that waited -> `durable`

Nothing of it holds up the log: where there is no room, the oldest letters go, and are counted.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from walflow.backoff import Backoff
from walflow.contract import Half
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.known_arrivals import Arriving
from walflow.delivery.letters.letter import without
from walflow.delivery.one_at_a_time import OneAtATime
from walflow.delivery.tag import Tag
from walflow.errors import DiskFull
from walflow.event import Block, Frames
from walflow.positions import Range
from walflow.wal import Commit, Log, LogOptions, Record
from walflow.wal.cursor import Acked
from walflow.wal.format import CHUNK_START, RECORD_HEADER

CHUNKS: Final = 16
LEAST: Final = 1024  # bytes of a chunk
RESERVE: Final = 2  # chunks that letters leave to those of them that go to the sink again
FULL_RETRY: Final = 1.0  # seconds, on a full disk
FOR_BYTES: Final = "letters_bytes"
FOR_THE_DISK: Final = "disk full"
BY_HAND: Final = "dropped by the operator"


class Going(NamedTuple):
    """Events that go to the sink again, as they are appended. `letters`: their numbers. `done`: called with how many
    they are, once they are on disk."""

    tag: Tag
    frames: Frames
    letters: Sequence[Range]
    done: Callable[[int], None]


class KeptLetter(NamedTuple):
    """What is on disk now: `what` was appended as `record`."""

    record: Record
    what: Block | Going


def options(path: str, size: int) -> LogOptions:
    """`size`: the most bytes of it."""
    return LogOptions(path, max(LEAST, size // CHUNKS), CHUNKS, cache_bytes=1 << 20)


class LetterStore:
    """`durable`: gets what is on disk. `room`: called when more may be appended. `given_up`: gets the reason and how
    many letters. `give_up`: gets blocks that are on no disk and will not be waited for, and the reason.

    `settled`: all positions but those that go to the sink again and are not settled."""

    def __init__(
        self,
        log: Log,
        half: Half,
        arriving: Arriving,
        durable: Callable[[Sequence[KeptLetter]], None],
        room: Callable[[], None],
        given_up: Callable[[str, int], None],
        forget: Callable[[int], None],
        give_up: Callable[[Sequence[Block], str], None],
    ) -> None:
        self.log = log
        self.settled = Acked(log.low)
        self.reserve = log.budget // CHUNKS * RESERVE
        self.checkpoints = Checkpoints(log, half.scheduler, half, room)
        self._half = half
        self._arriving = arriving
        self._durable = durable
        self._room = room
        self._given_up = given_up
        self._forget = forget
        self._give_up = give_up
        self._leaving = Acked()  # letters whose copies are appended, and not on disk
        self._copies = 0
        self._abandoned = set[int]()  # ids of blocks that were given up and may come to the disk yet
        self._writes: OneAtATime[Commit] = OneAtATime(
            half, log.commit, self._committed, self._disk_is_full, Backoff(FULL_RETRY, FULL_RETRY), urgent=True
        )

    def __repr__(self) -> str:
        return f"<LetterStore {self.kept} letters, {self.going} go again: {self.log!r}>"

    @property
    def going(self) -> int:
        """Events that go to the sink again and are not settled."""
        return self.log.durable - self.settled.low - self.settled.above

    @property
    def kept(self) -> int:
        log = self.log
        return log.durable - log.low - log.acked.above - self.going

    def fits_at_all(self, size: int) -> bool:
        """Whether there can ever be room for a letter of so many bytes."""
        return CHUNK_START + RECORD_HEADER.size + 16 + size + self.reserve <= self.log.budget

    def append(self, tag: bytes, payload: bytes, count: int, what: Block | Going) -> bool:
        """False: there is no room now. For letters there will be: the oldest go, and `room` is called. They leave
        room for what goes again."""
        reserve = self.reserve if isinstance(what, Block) else 0
        if not self.log.fits(len(tag), len(payload) + reserve):
            if isinstance(what, Block):
                self._make_way(len(tag), len(payload) + reserve)
            return False
        if self.checkpoints.wanted:
            self.checkpoints.want_space(False)
        self.log.append(tag, payload, count, self.log.clock.wall_ns(), what)
        if isinstance(what, Going):
            self._copies += 1
            for one in what.letters:
                self._leaving.add(*one)
        self._writes.want()
        return True

    def _make_way(self, tag_bytes: int, payload_bytes: int) -> None:
        dropped = self.log.drop_oldest(tag_bytes, payload_bytes)
        if dropped:
            self.settled.add(1, dropped[-1].last)
            self._forget(dropped[-1].last)
            self._given_up(FOR_BYTES, sum(one.events for one in dropped))
        self.checkpoints.want_space(True)

    def letters(self, first: int, last: int) -> list[Range]:
        """Those of these positions that are letters: kept, and neither going nor about to go."""
        return [
            part
            for one in self.log.unacked(first, min(last, self.log.durable))
            for stays in without(one, self.settled.missing(*one))
            for part in self._leaving.missing(*stays)
        ]

    def drop(self, ranges: Sequence[Range], why: str) -> int:
        """How many of these were letters."""
        found = [part for one in ranges for part in self.letters(*one)]
        for one in found:
            self.log.trail.gone("", why, *one)
            self.log.ack(*one)
        if found:
            self.checkpoints.acked()
        return sum(last - first + 1 for first, last in found)

    def unwritten(self) -> list[Block]:
        """Blocks that are appended, on no disk, and not given up."""
        return [what for what in self.log.pending() if isinstance(what, Block) and id(what) not in self._abandoned]

    def stop(self) -> None:
        """Begins no more work; that which is under way goes on."""
        self._writes.stop()
        self.checkpoints.stop()

    def _committed(self, commit: Commit) -> None:
        self.log.committed(commit)
        self._arriving.committed(commit, [what for what in commit.refs if isinstance(what, Block)])
        kept: list[KeptLetter] = []
        for what, (record, _, _) in zip(commit.refs, commit.entries, strict=True):
            assert isinstance(what, Block | Going)
            last = record.position + record.count - 1
            if isinstance(what, Going):
                for one in what.letters:
                    self.log.ack(*one)
                self._copies -= 1
            else:
                self.settled.add(record.position, last)
                if id(what) in self._abandoned:
                    self._abandoned.discard(id(what))
                    self.log.ack(record.position, last)  # it was counted as given up
                    continue
            kept.append(KeptLetter(record, what))
        if not self._copies:
            self._leaving = Acked()
        self.checkpoints.committed()
        self._durable(kept)
        self._room()
        self._writes.want()  # what waits may be more than one commit

    def _disk_is_full(self, error: DiskFull) -> None:
        """The oldest file goes, so that the next try may find room. Where there is none, what waits is given up."""
        chunks = self.log.chunks
        oldest = chunks[0] if len(chunks) > 1 and chunks[0].last <= self.log.durable else None
        if oldest is not None:
            count = self.drop([(oldest.first, oldest.last)], FOR_THE_DISK)
            self.checkpoints.now()
            if count:
                self._given_up(FOR_THE_DISK, count)
                return
        waiting = self.unwritten()
        self._abandoned |= {id(block) for block in waiting}
        if waiting:
            self._given_up(FOR_THE_DISK, sum(block.frames.count for block in waiting))
            self._half.log.warning("letters not written", reason=str(error))
        self._give_up(waiting, str(error))
