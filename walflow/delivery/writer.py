"""The sink half of a log: appends blocks, commits all that waited at once, acks after the sync.

A commit is collected once in each turn of the loop, not by a timer: while one commit is being synced, the next one
fills. The disk gets its next commit before the last one is acked, so the disk never waits for the echo.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from walflow.backoff import Backoff
from walflow.contract import Inlet
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.known_arrivals import Arriving
from walflow.delivery.retention import Retention
from walflow.delivery.tag import Tags
from walflow.errors import DiskFull, WalflowError
from walflow.event import Block
from walflow.sinks.job_engine import JobEnd, JobEngine, SinkWork
from walflow.wal import Commit, Log
from walflow.wal.format import MAX_TAG

HIGH_MARK: Final = 0.9  # of the budget: the breaker triggers
LOW_MARK: Final = 0.7  # and restores
LOW_COUNT: Final = 0.9  # of the events that may wait, where their number is bounded: that is known to the event
FIRST_RETRY: Final = 0.1  # seconds, on a full disk; space is noticed within 2 s
LONGEST_RETRY: Final = 1.0


class CommitJob:
    """`blocks` is empty: until the commit is on disk, they are the log's (`LogSink.stored`). So it is flushed again,
    whatever became of them."""

    __slots__ = ("blocks", "commit")

    def __init__(self, commit: Commit) -> None:
        self.commit = commit
        self.blocks: list[Block] = []


def _unmeasured(commit: Commit) -> None: ...


def _untold() -> None: ...


class LogSink(SinkWork[CommitJob]):
    """`make_way`, if given, drops the oldest events for a record with a tag and a payload of this size; then a full
    log never stops its sources. A full disk always does. `most`: how many events may wait in the log. `on_full`:
    called when the log stops its sources because it has no room. `arriving`: what it has already of logs upstream.
    `retention`: gives room on a full disk.

    If other outputs can take its events (`Upstream.replaceable`), they get what does not fit. `takes_back`: on a full
    disk also what was appended and is not on disk; once it is, it is acked at once, so that no sink behind the log
    gets it too. A crash in between may send it twice. The commit that could not be written is tried again, and shows
    when there is room."""

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
        retention: Retention | None = None,
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
        self._retention = retention
        self._takes_back = takes_back and inlet.upstream.replaceable and arriving is None
        self._given_up = set[int]()  # of blocks that are in the log and in no commit on disk: another output has them
        self._rejected_bytes = inlet.counter("wal_rejected_bytes_total")
        self._stopped = False
        self._full_reason = ""
        self._no_room: tuple[Block, bytes] | None = None  # what had none last, with its tag
        self._block_cap = min(log.block_cap, log.max_record)
        engine = JobEngine(
            inlet,
            self,
            urgent=True,  # clients wait for it; it does not wait for a cursor that is being written
            backoff=Backoff(FIRST_RETRY, LONGEST_RETRY),
        )
        engine.begin()
        self._accept = engine.accept

    @property
    def is_full(self) -> bool:
        """Whether the budget is used, or almost used."""
        return self.sink.is_full or (self._make_way is not None and bool(self.sink.waiting))

    @property
    def no_space(self) -> bool:
        """The disk is full, or no file can be opened."""
        return self.sink.trouble is not None

    def accept(self, block: Block) -> None:
        if self._arriving is None:
            if self._most is None and len(block.frames.data) <= self._block_cap:
                self._accept(block)
            else:
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

    def _admit(self, block: Block) -> None:
        if len(block.frames.data) > self._log.max_record:
            self._reject_large(block, self._inlet.reject)  # it need not wait for those before it
        else:
            self._accept(block)

    def _reject_large(self, block: Block, reject: Callable[[Block, str], None]) -> None:
        size = len(block.frames.data)
        self._rejected_bytes.value += size
        reject(block, f"event of {size} bytes does not fit the log's budget, {self._log.budget} bytes")

    def room(self) -> None:
        """There is space again."""
        self.sink.room()

    def stop(self) -> None:
        """Begins no commit any more. The one that is running goes on; then what is not acked fails."""
        self.sink.stop(self._fail_rest)

    def _fail_rest(self) -> None:
        self._stopped = True
        self.sink.closed()

    # what comes: walflow.sinks.SinkWork

    def store(self, block: Block) -> Sequence[Block]:
        log, frames, most = self._log, block.frames, self._most
        if self._no_room is not None and self._no_room[0] is block:
            tag = self._no_room[1]
        else:
            tag = self._tags.encode(block)
            if self._arriving is not None:
                tag = self._arriving.tag(tag, block)
        self._no_room = None
        tag_bytes, size = len(tag), len(frames.data)
        rest: Sequence[Block] = ()
        if tag_bytes > MAX_TAG:
            rest = self._store_halves(block, tag_bytes)
        elif tag_bytes + size > log.max_record:
            self._reject_large(block, self.sink.reject)
        elif log.fits(tag_bytes, size) and (most is None or self._waiting() + frames.count <= most):
            log.append(tag, frames.data, frames.count, block.ingest_ns, block)
        else:
            rest = (block,)
            self._no_room = block, tag
            if self._make_way is not None:
                self._make_way(tag_bytes, size)
        if self._make_way is not None:
            self._want_space(bool(rest))
        return rest

    def _store_halves(self, block: Block, size: int) -> Sequence[Block]:
        """Each event may have metadata of its own, so a part of the block has less."""
        count = block.frames.count
        if block.event_metas is not None and count > 1:
            first, second = block.split([count // 2, count - count // 2])
            rest = self.store(first)
            return (*rest, second) if rest else self.store(second)
        self._rejected_bytes.value += len(block.frames.data)
        self.sink.reject(
            block, f"metadata of {size:,} bytes does not fit a record of the log, which takes {MAX_TAG:,}"
        )
        return ()

    def full(self, held_bytes: int, *, was: bool) -> str:
        """A log that makes way is never full."""
        if self._make_way is not None:
            return ""
        waits = self._no_room is not None and bool(self.sink.waiting)
        if not (waits or self._is_high() or (was and not self._is_low())):
            if was:
                self._want_space(False)
            return ""
        if not was:
            events = f", {self._waiting()} of {self._most} events" if self._most is not None else ""
            self._full_reason = f"the log is full: {self._log.used} of {self._log.budget} bytes{events}"
            self._want_space(True)
            self._on_full()
        return self._full_reason

    def _want_space(self, wanted: bool) -> None:
        if wanted or self._checkpoints.wanted:
            self._checkpoints.want_space(wanted)

    def _waiting(self) -> int:
        """The number of events in the log from the first one that is not acked, with acked ones after it."""
        return self._log.next - 1 - self._log.low

    def _is_high(self) -> bool:
        return self._log.fill >= HIGH_MARK or (self._most is not None and self._waiting() >= self._most)

    def _is_low(self) -> bool:
        few = self._most is None or self._waiting() <= self._most * LOW_COUNT
        return few and self._log.fill <= LOW_MARK

    # what is written

    def take(self, waiting: deque[Block]) -> CommitJob | None:
        commit = self._log.commit()
        return None if commit is None else CommitJob(commit)

    def do(self, job: CommitJob) -> None:
        job.commit.flush()

    def outcomes(self, job: CommitJob, error: BaseException | None) -> JobEnd:
        """After a full disk the same commit is flushed again. It keeps its positions, because no event was acked."""
        if isinstance(error, DiskFull):
            if self._retention is not None:
                self._retention.disk_is_full(str(error))
            return JobEnd(trouble=str(error))
        if error is not None:
            self._inlet.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        commit = job.commit
        self._log.committed(commit)
        if self._arriving is not None:
            self._arriving.committed(commit, commit.refs)
        if self._given_up:
            return JobEnd([*self._written(commit)])
        return JobEnd(cast(Sequence[Block], commit.refs))

    def settled(self, job: CommitJob) -> None:
        self._checkpoints.committed()
        self._on_commit(job.commit)
        if self._make_way is not None and self.sink.waiting:
            self.room()  # what could not be dropped can be now, for it is written
        self._on_durable()

    def stored(self) -> Iterator[Block]:
        if self._takes_back or self._stopped:
            for block in self._log.pending():
                assert isinstance(block, Block)
                if id(block) not in self._given_up:
                    self._given_up.add(id(block))
                    yield block

    def _written(self, commit: Commit) -> Iterator[Block]:
        """The blocks that are to be acked. What another output has is acked before anything reads it here."""
        for block, (record, _, _) in zip(commit.refs, commit.entries, strict=True):
            assert isinstance(block, Block)
            if id(block) in self._given_up:
                self._given_up.discard(id(block))
                self._log.ack(record.position, record.position + record.count - 1)
                self._checkpoints.acked()
            else:
                yield block
