"""The sink half of a log: appends blocks, commits all that waited at once, acks after the sync.

A commit is collected once in each turn of the loop, not by a timer: while one commit is being synced, the next one
fills. The disk gets its next commit before the last one is acked, so the disk never waits for the echo.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import Inlet
from walflow.delivery.arriving import Arriving
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.one_at_a_time import OneAtATime
from walflow.delivery.tag import Tags
from walflow.errors import DiskFull, WalflowError
from walflow.event import Block
from walflow.wal import Commit, Log
from walflow.wal.format import MAX_TAG

HIGH_MARK: Final = 0.9  # of the budget: the breaker triggers
LOW_MARK: Final = 0.7  # and restores
LOW_COUNT: Final = 0.9  # of the events that may wait, where their number is bounded: that is known to the event
FIRST_RETRY: Final = 0.1  # seconds, on a full disk; space is noticed within 2 s
LONGEST_RETRY: Final = 1.0


def _unmeasured(commit: Commit) -> None: ...


def _untold() -> None: ...


class NoRoom(WalflowError):
    """The log takes no events now. Another output may take them."""


class LogSink:
    """`make_way`, if given, drops the oldest events for a record with a tag and a payload of this size; then a full log
    never stops its sources. A full disk always does. `most`: how many events may wait in the log. `on_full`: called
    when the log stops its sources because it has no room. `arriving`: what it has already of logs upstream.

    If other outputs can take its events (`Upstream.replaceable`), they get what does not fit. `takes_back`: on a full disk also
    what was appended and is not on disk; once it is, it is acked at once, so that no sink behind the log gets it too. A crash
    in between may send it twice. The commit that could not be written is tried again, and shows when there is room."""

    def __init__(
        self,
        log: Log,
        inlet: Inlet,
        tags: Tags,
        on_durable: Callable[[], None],
        checkpoints: Checkpoints,
        on_commit: Callable[[Commit], None] = _unmeasured,
        make_way: Callable[[int, int], None] | None = None,
        most: int | None = None,
        on_full: Callable[[], None] = _untold,
        arriving: Arriving | None = None,
        *,
        takes_back: bool = False,
    ) -> None:
        self._log = log
        self._inlet = inlet
        self._tags = tags
        self._on_durable = on_durable
        self._checkpoints = checkpoints
        self._on_commit = on_commit
        self._make_way = make_way
        self._most = most
        self._on_full = on_full
        self._arriving = arriving
        self._takes_back = takes_back and inlet.upstream.replaceable and arriving is None
        self._given_up: set[int] = (
            set()
        )  # of blocks that are in the log and in no commit on disk: another output has them
        self._rejected_bytes = inlet.counter("wal_rejected_bytes_total")
        self._scheduler = inlet.scheduler
        self._held: deque[tuple[Block, bytes]] = deque()  # with their tags
        self._gathering = False
        self._full = False
        self._no_space = False
        self._commits = OneAtATime(
            inlet,
            log.commit,
            self._committed,
            self._tell_full,
            Backoff(FIRST_RETRY, LONGEST_RETRY),
            urgent=True,  # clients wait for it; it does not wait for a cursor that is being written
        )

    @property
    def full(self) -> bool:
        """Whether the budget is used, or almost used."""
        return self._full

    @property
    def no_space(self) -> bool:
        """The disk is full, or no file can be opened."""
        return self._no_space

    def accept(self, block: Block) -> None:
        if self._arriving is None:
            self._take(block)
        else:
            for part in self._arriving.fresh(block):
                self._take(part)

    def _take(self, block: Block) -> None:
        frames = block.frames
        most = self._most or frames.count
        if (len(frames.data) > self._log.block_cap or frames.count > most) and frames.count > 1:
            for part in block.split(frames.sizes(self._log.block_cap, most)):
                self._admit(part)
        else:
            self._admit(block)

    def room(self) -> None:
        """There is space again: appends the waiting blocks, and restores the breaker below the low mark."""
        while self._held and self._append(*self._held[0]):
            self._held.popleft()
        if self._make_way is not None:
            self._push(self._make_way)
        elif self._full and not self._held and self._is_low():
            self._full = False
            self._checkpoints.want_space(False)
            self._signal()

    def _admit(self, block: Block) -> None:
        tag = self._tag(block)
        if len(tag) > MAX_TAG:
            self._split_metadata(block, len(tag))
        elif len(tag) + len(block.frames.data) > self._log.max_record:
            size = len(block.frames.data)
            self._inlet.reject(
                block, f"event of {size} bytes does not fit the log's budget, {self._log.budget} bytes"
            )
            self._rejected_bytes.value += size
        elif self._no_space and self._inlet.upstream.replaceable:
            self._inlet.fail(block, NoRoom("the disk of the log is full"))
        elif self._inlet.upstream.replaceable and self._make_way is None:
            if self._full or not self._append(block, tag):
                self._fill_up()
                self._inlet.fail(block, NoRoom("the log is full"))
        elif self._held or not self._append(block, tag):
            self._held.append((block, tag))
            if self._make_way is None:
                self._fill_up()
            elif len(self._held) == 1:
                self._push(self._make_way)

    def _split_metadata(self, block: Block, size: int) -> None:
        """Each event may have metadata of its own, so a part of the block has less."""
        count = block.frames.count
        if block.event_metas is not None and count > 1:
            for part in block.split([count // 2, count - count // 2]):
                self._admit(part)
            return
        self._inlet.reject(
            block, f"metadata of {size:,} bytes does not fit a record of the log, which takes {MAX_TAG:,}"
        )
        self._rejected_bytes.value += len(block.frames.data)

    def _push(self, make_way: Callable[[int, int], None]) -> None:
        """Makes room for waiting blocks, because they need the space at once."""
        if self._held:
            block, tag = self._held[0]
            make_way(len(tag), len(block.frames.data))
        if self._held or self._full:
            self._full = bool(self._held)
            self._checkpoints.want_space(self._full)

    def _append(self, block: Block, tag: bytes) -> bool:
        log, frames = self._log, block.frames
        if self._most is not None and self._waiting() + frames.count > self._most:
            return False
        if not log.fits(len(tag), len(frames.data)):
            return False
        log.append(tag, frames.data, frames.count, block.ingest_ns, block)
        if not self._gathering and self._commits.in_air is None:
            self._gathering = True
            self._scheduler.call_soon(self._gathered)
        if self._make_way is None and self._is_high():
            self._fill_up()
        return True

    def _tag(self, block: Block) -> bytes:
        tag = self._tags.encode(block)
        return tag if self._arriving is None else self._arriving.tag(tag, block)

    def _waiting(self) -> int:
        """The number of events in the log from the first one that is not acked, with acked ones after it."""
        return self._log.next - 1 - self._log.low

    def _is_high(self) -> bool:
        return self._log.fill >= HIGH_MARK or (self._most is not None and self._waiting() >= self._most)

    def _is_low(self) -> bool:
        few = self._most is None or self._waiting() <= self._most * LOW_COUNT
        return few and self._log.fill <= LOW_MARK

    def _gathered(self) -> None:
        self._gathering = False
        self._commits.want()

    def stop(self) -> None:
        """Starts no more commits; the one that is running goes on."""
        self._commits.stop()

    def _committed(self, commit: Commit) -> None:
        self._log.committed(commit)
        if self._arriving is not None:
            self._arriving.committed(commit, commit.refs)
        self._commits.want()  # the disk works again before we deliver
        self._checkpoints.committed()
        self._on_commit(commit)
        if self._given_up:
            self._settle_given_up(commit)
        else:
            for block in commit.refs:
                assert isinstance(block, Block)
                self._inlet.ack(block)
        if self._no_space:
            self._no_space = False
            self._signal()
        if self._held and self._make_way is not None:
            self.room()  # what could not be dropped can be now, for it is written
        self._on_durable()

    def _tell_full(self, error: DiskFull) -> None:
        """Triggers the breaker for the full disk. The same commit is flushed again later; it keeps its positions,
        because no event was acked."""
        self._no_space = True
        self._inlet.trigger(str(error))
        if self._takes_back:
            self._give_up(error)

    def _give_up(self, error: DiskFull) -> None:
        for block in self._log.pending():
            assert isinstance(block, Block)
            if id(block) not in self._given_up:
                self._given_up.add(id(block))
                self._inlet.fail(block, error)

    def _settle_given_up(self, commit: Commit) -> None:
        """What another output has is acked before anything reads it here."""
        for block, (record, _, _) in zip(commit.refs, commit.entries, strict=True):
            assert isinstance(block, Block)
            if id(block) in self._given_up:
                self._given_up.discard(id(block))
                self._log.ack(record.position, record.position + record.count - 1)
                self._checkpoints.acked()
            else:
                self._inlet.ack(block)

    def _fill_up(self) -> None:
        if not self._full:
            self._full = True
            self._checkpoints.want_space(True)
            self._on_full()
            self._signal()

    def _signal(self) -> None:
        """Sets the breaker, for which there are two reasons."""
        if self._no_space:
            return  # said already
        if self._full and self._make_way is None:
            events = f", {self._waiting()} of {self._most} events" if self._most is not None else ""
            self._inlet.trigger(f"the log is full: {self._log.used} of {self._log.budget} bytes{events}")
        else:
            self._inlet.restore()
