"""One job at a time, in plain calls: a `JobSink` (job.py) is this and a coroutine around it. What needs no event
loop, as the writer of a log, stands on it as it is.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from walflow.backoff import Backoff
from walflow.contract import Inlet, Timer
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.sinks.breaker import SinkBreaker
from walflow.sinks.engine import FIRST_DELAY, LAST_DELAY, NotDelivered, SinkEngine
from walflow.sinks.states import (
    BEGIN,
    BUG,
    CLOSED,
    DONE,
    DUE,
    GIVE_UP,
    HELD,
    IDLE,
    REST,
    RETRY,
    STOPPED,
    STOPPING,
    TROUBLE,
    WORKING,
)


class JobBlocks(Protocol):
    """A job. `blocks`: those without an outcome, in order."""

    blocks: list[Block]


READY: Final = frozenset((IDLE, DUE, WORKING))
OVER: Final = frozenset((STOPPING, STOPPED, CLOSED))

J = TypeVar("J", bound=JobBlocks)


class JobEnd(NamedTuple):
    """What the end of a job means. `acked`, `rejected` (each with its reason): blocks that have their outcome now.
    What is left in the job's `blocks` is worked on next, before anything else. `trouble`: not before a wait, because
    nothing can be delivered now. `lost`: nothing can be delivered in this run any more."""

    acked: Sequence[Block] = ()
    rejected: Sequence[tuple[Block, str]] = ()
    trouble: str = ""
    lost: str = ""


class SinkWork(Generic[J]):
    """What a `JobSink` does. `take` and `do` are yours; the rest is as most need it. `opens`: the first job opens
    something, and blocks are taken only once it has ended well. `sink`: whose work it is; for what has its outcome
    without a job."""

    opens = False
    closes: ClassVar[bool] = False  # it has a `close`
    bounded: ClassVar[bool] = False  # it has a `full`
    stores: ClassVar[bool] = False  # it has a `store`
    told: ClassVar[bool] = False  # it has a `begins`
    sink: "JobEngine[J]"

    def __init_subclass__(cls) -> None:
        cls.closes = cls.closes or "close" in vars(cls)
        cls.bounded = cls.bounded or "full" in vars(cls)
        cls.stores = cls.stores or "store" in vars(cls)
        cls.told = cls.told or "begins" in vars(cls)

    def store(self, block: Block) -> Sequence[Block]:
        """On the loop, as a block comes, also while a job is on its thread: takes it for the next jobs. What is
        returned of it, in order, waits for room: `JobEngine.room` asks again."""
        raise NotImplementedError

    def stored(self) -> Iterable[Block]:
        """Blocks that `store` took, and that are to fail now: another output gets them, or the sink has stopped."""
        return ()

    def take(self, waiting: deque[Block]) -> J | None:
        """On the loop: the next job. It takes its blocks off `waiting`. None: there is nothing to do now."""
        raise NotImplementedError

    def begins(self, job: J) -> None:
        """On the loop, before each try of it."""

    def do(self, job: J) -> None:
        """On the thread."""
        raise NotImplementedError

    def outcomes(self, job: J, error: BaseException | None) -> JobEnd:
        """On the loop, after the job. Raising means a bug: the run ends with this error. As it is here: all blocks
        are acked; after an OSError or a WalflowError the same job is tried again."""
        if error is None:
            acked, job.blocks = job.blocks, []
            return JobEnd(acked)
        return JobEnd(trouble=self.explain(error))

    def settled(self, job: J) -> None:
        """On the loop: it has ended well, and its blocks have their outcomes."""

    def explain(self, error: BaseException) -> str:
        """Why a job failed, in a line. Raises what is a bug."""
        if isinstance(error, OSError) and error.strerror:
            return f"cannot write{f' to {error.filename}' if error.filename else ''}: {error.strerror}"
        if isinstance(error, (OSError, WalflowError)):
            return str(error)
        raise error

    def unfinished(self, job: J) -> Iterable[tuple[Block, int]]:
        """The blocks of a job that will not go on, each with how many of its first events are delivered."""
        return ((block, 0) for block in job.blocks)

    def full(self, held_bytes: int, *, was: bool) -> str:
        """Why the sources should stop although the jobs go well; "": they may send. `held_bytes`: of all blocks
        without an outcome. `was`: they are stopped for this reason."""
        return ""

    def stop_cause(self) -> WalflowError | None:
        """Why blocks fail at the end; None: because the sink has stopped."""
        return None

    def close(self) -> None:
        """On the thread: the last job."""

    def closed(self, error: BaseException | None) -> None:
        """On the loop, at the very end; `close` may have failed so."""


class JobEngine(SinkEngine, Generic[J]):
    """`inline`: jobs are so short that they run on the loop, within `accept`. `urgent`: as `Scheduler.submit` has it.
    `backoff`: the waits after trouble. `drop`: what becomes of the blocks of a sink that is lost; None: they are
    held."""

    def __init__(
        self,
        inlet: Inlet,
        work: SinkWork[J],
        *,
        inline: bool = False,
        urgent: bool = False,
        backoff: Backoff | None = None,
        drop: Callable[[Block], None] | None = None,
        breaker: SinkBreaker | None = None,
        key: str = "",
    ) -> None:
        super().__init__(inlet, DUE, gathers=not inline, breaker=breaker, key=key)
        self.serving = False
        self.held_bytes = 0  # of all blocks without an outcome; where the work stores them, it knows its own bound
        self._work = work
        work.sink = self
        self._stores, self._bounded, self._begins = work.stores, work.bounded, work.told
        self._counts = work.bounded and not work.stores
        self._inline = inline
        self._urgent = urgent
        self._backoff = backoff or Backoff(FIRST_DELAY, LAST_DELAY)
        self._drop = drop
        self._job: J | None = None  # on its thread, or to be gone on with
        self._timer: Timer | None = None

    def start(self) -> None:
        """Takes blocks, or opens what they go to and then takes them."""
        if not self._work.opens:
            self._serve()
        self.begin()

    def begin(self) -> None:
        """Works. For one who serves the inlet itself, and calls `accept`."""
        self._next()

    def accept(self, block: Block) -> None:
        if self._stores:
            if self.state in READY and self.trouble is None and not self.waiting and block.frames.count:
                if rest := self._work.store(block):
                    self.waiting.extend(rest)
                if self.state is IDLE:
                    self.wake()
            else:
                SinkEngine.accept(self, block)
                if len(self.waiting) == 1 and self.state not in OVER:  # else others wait for room
                    self._store_waiting()
        else:
            if self._counts:
                self.held_bytes += len(block.frames.data)
            SinkEngine.accept(self, block)
        if self._bounded and ((reason := self._work.full(self.held_bytes, was=self.is_full)) or self.is_full):
            self.full(reason)

    def room(self) -> None:
        """There may be room for what waits."""
        if self.state not in OVER:
            if self._stores:
                self._store_waiting()
            self.wake()
            self._look_at_room()

    def _store_waiting(self) -> None:
        waiting = self.waiting
        while waiting:
            rest = self._work.store(waiting[0])
            waiting.popleft()
            if rest:
                waiting.extendleft(reversed(rest))
                return

    def retry(self) -> None:
        """Ends a wait for better times, or the sink's rest: there may be something to do."""
        if self.state is HELD:
            self._end_wait()
            self._retry()
        else:
            self.wake()

    def lose(self, reason: str) -> None:
        """Nothing can be delivered in this run any more."""
        self._becomes(GIVE_UP)
        if self._drop is None:
            self._failed_try(NotDelivered(reason))
        else:
            self._well()
        self._leave_all()

    def _serve(self) -> None:
        self.serving = True
        self._inlet.serve(self.accept)

    # one job after the other

    def _next(self) -> None:
        while self.state is DUE:  # otherwise it was stopped meanwhile
            job = self._job
            if job is None:
                job = self._job = self._work.take(self.waiting)
            if job is None:
                self._becomes(REST)
                return
            self._becomes(BEGIN)
            if self._begins:
                self._work.begins(job)
            if not self._inline:
                self._inlet.scheduler.submit(partial(self._work.do, job), self._ended, urgent=self._urgent)
                return
            error: BaseException | None = None
            try:
                self._work.do(job)
            except Exception as raised:  # noqa: BLE001  # `outcomes` judges it
                error = raised
            self._ended(error)

    def _ended(self, error: BaseException | None) -> None:
        job = self._job
        if job is None:  # a stop was cut short, and its blocks have failed
            self._becomes(DONE)
            return
        try:
            end = self._work.outcomes(job, error)
        except BaseException as bug:  # noqa: BLE001  # `_has_bug` does
            self._becomes(BUG)
            self._has_bug(bug)
            return
        if not job.blocks:
            self._job = None
        if end.lost:
            self._settle(end)
            self.lose(end.lost)
        elif end.trouble:
            self._job = job
            self._settle(end)
            self._hold(end.trouble)
        else:
            self._went_well(job, end)
        if self._bounded and not self._stores:
            self._look_at_room()

    def _has_bug(self, bug: BaseException) -> None:
        """No more blocks are taken."""
        raise bug

    def _went_well(self, job: J, end: JobEnd) -> None:
        if self._backoff.failures:
            self._backoff.reset()
        self._well()
        if self._inline:
            self._settle(end)  # what an ack brings waits: it is not taken within the ack
        self._becomes(DONE)
        if self._work.opens and not self.serving and self.state is DUE:
            self._serve()
        if not self._inline:
            self._next()  # the disk is at work again before the acks go their way
            self._settle(end)
        self._work.settled(job)

    # outcomes

    def ack(self, block: Block) -> None:
        self._inlet.ack(self.hand_over(block))

    def reject(self, block: Block, reason: str) -> None:
        self._inlet.reject(self.hand_over(block), reason)

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        super().fail(self.hand_over(block), cause, done)

    def hand_over(self, block: Block) -> Block:
        """It is not held any more. Alone: its outcome is another's, of the answer that is sent for it."""
        if self._counts:
            self.held_bytes -= len(block.frames.data)
        return block

    def _settle(self, end: JobEnd) -> None:
        ack = self.ack if self._counts else self._inlet.ack
        for block in end.acked:
            ack(block)
        for block, reason in end.rejected:
            self.reject(block, reason)

    # while nothing can be delivered

    def _hold(self, trouble: str) -> None:
        self._failed_try(NotDelivered(trouble))
        if self._becomes(TROUBLE) is HELD:
            self._timer = self._inlet.scheduler.call_later(self._backoff.next(), self._retry)

    def _retry(self) -> None:
        """If another output takes the events, only a new one shows whether it can be delivered: the sources may
        send."""
        self._timer = None
        self._becomes(RETRY)
        if self._inlet.upstream.replaceable:
            if self._job is None:
                self._job = self._work.take(self.waiting)
            if self._job is None:
                self._well()
        self._inlet.scheduler.call_soon(self._next)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_room(self) -> None:
        reason = self._work.full(self.held_bytes, was=self.is_full)
        if reason or self.is_full:
            self.full(reason)

    def _fail_held(self, cause: WalflowError) -> None:
        job = self._job
        if job is not None and job.blocks:
            self._job = None
            for block, done in self._work.unfinished(job):
                self.fail(block, cause, done)
        for block in self._work.stored():
            self.fail(block, cause)
        super()._fail_held(cause)

    def _leave_all(self) -> None:
        """What a sink that is lost has in hand."""
        if self._drop is None:
            return
        job, self._job = self._job, None
        waiting = [*self.waiting]
        self.waiting.clear()
        for block in (*(job.blocks if job is not None else ()), *waiting):
            self._leave(block)

    def _leave(self, block: Block) -> None:
        if self._drop is None:
            super()._leave(block)
        else:
            self._drop(self.hand_over(block))

    # the end

    def _stop_cause(self) -> WalflowError:
        return self._work.stop_cause() or super()._stop_cause()
