"""The sink half: one job of the file at a time, batch after batch; while the file cannot be written, the sources stop.

If other outputs can take its events (`Upstream.replaceable`), they get all that it cannot write. After a wait it takes events
again: whether there is room is known only to one who writes.
"""

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from connectors.file.batching import Batching
from connectors.file.output import FileBatch, Output, explain
from walflow import Backoff, Block, Inlet, Timer, WalflowError

FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 10.0


class NotWritten(WalflowError):
    """The file cannot be written now. Another output may take the events."""


class SinkStopped(WalflowError):
    """The connector has stopped, with blocks that are not in the file."""


class WriterState(Enum):
    IDLE = auto()  # nothing is to be done
    DUE = auto()  # something is, in the next turn of the loop: what else comes in this one joins the batch
    WORKING = auto()  # a job is in the air: the file is opened, or a batch is written
    HELD = auto()  # the file cannot be opened or written; a timer runs
    STOPPING = auto()  # the last job is in the air
    STOPPED = auto()  # nothing is begun any more
    CLOSED = auto()  # blocks fail at once


class WriterEvent(Enum):
    WAKE = auto()  # there is something to do
    BEGIN = auto()  # a job goes into the air
    REST = auto()  # there was nothing to do
    DONE = auto()  # the job in the air has ended well
    TROUBLE = auto()  # it failed, as files do
    BUG = auto()  # it failed as no file does
    RETRY = auto()  # the timer has run out, or SIGHUP ended it
    STOP = auto()
    CLOSE = auto()


IDLE, DUE, WORKING, HELD, STOPPING, STOPPED, CLOSED = WriterState
WAKE, BEGIN, REST, DONE, TROUBLE, BUG, RETRY, STOP, CLOSE = WriterEvent

TRANSITIONS: Final[Mapping[WriterState, Mapping[WriterEvent, WriterState]]] = {
    IDLE: {WAKE: DUE, STOP: STOPPED},
    DUE: {BEGIN: WORKING, REST: IDLE, STOP: STOPPED},
    WORKING: {DONE: DUE, TROUBLE: HELD, BUG: STOPPED, STOP: STOPPING},
    HELD: {RETRY: DUE, STOP: STOPPED},
    STOPPING: {DONE: STOPPED, TROUBLE: STOPPED, BUG: STOPPED, CLOSE: CLOSED},
    STOPPED: {STOP: STOPPED, CLOSE: CLOSED},
    CLOSED: {DONE: CLOSED, TROUBLE: CLOSED, BUG: CLOSED},  # no task waited for the last job
}


class FileWriter:
    """`failure`, with `ended` set: a bug, and no more blocks are taken."""

    def __init__(self, inlet: Inlet, output: Output) -> None:
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()
        self._state = DUE
        self._stopped = asyncio.Event()
        self._inlet = inlet
        self._output = output
        self._batching = Batching(inlet, output)
        self._waiting = self._batching.waiting
        self._batch: FileBatch | None = None  # in the air, or held until it can be written
        self._wants_open = True
        self._serving = False
        self._timer: Timer | None = None
        self._backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        self._trouble: str | None = None

    def __repr__(self) -> str:
        waiting = len(self._waiting)
        return (
            f"<FileWriter {self._output!r} {self._state.name.lower()}, {waiting} waiting, {self._trouble or 'well'}>"
        )

    def start(self) -> None:
        """Opens the file; once it is open, blocks are taken. Until then they wait where they are."""
        self._next()

    def accept(self, block: Block) -> None:
        if self._state is CLOSED:
            self._fail(block)
            return
        if self._trouble is not None and self._inlet.upstream.replaceable:
            self._inlet.fail(block, NotWritten(self._trouble))
            return
        self._waiting.append(block)
        if self._state is IDLE:
            self._wake()

    def reopen(self) -> None:
        """SIGHUP. It ends a wait for better times, too."""
        self._wants_open = True
        if self._state is HELD:
            self._end_wait()
            self._becomes(RETRY)
            self._inlet.scheduler.call_soon(self._next)
        elif self._state is IDLE:
            self._wake()

    async def close(self) -> None:
        """Waits for the batch in the air; what is not in the file then fails."""
        self._end_wait()
        try:
            if self._becomes(STOP) is STOPPING:
                await asyncio.shield(self._stopped.wait())
            await self._close_output()
        finally:
            self._becomes(CLOSE)
            for block in (*(self._batch.blocks if self._batch else ()), *self._waiting):
                self._fail(block)

    def _fail(self, block: Block) -> None:
        self._inlet.fail(block, SinkStopped(f"{self._inlet.name} has stopped"))

    async def _close_output(self) -> None:
        closed = asyncio.Event()

        def done(error: BaseException | None) -> None:
            self._tell()
            if isinstance(error, OSError):
                self._inlet.log.warning(f"not closed cleanly: {explain(self._output.path, error)}")
            closed.set()

        self._inlet.scheduler.submit(self._output.close, done)
        await asyncio.shield(closed.wait())

    # one job after the other: the file is opened, then a batch is written, or it is opened again

    def _becomes(self, event: WriterEvent) -> WriterState:
        self._state = state = TRANSITIONS[self._state][event]
        if state is STOPPED:
            self._stopped.set()
        return state

    def _wake(self) -> None:
        self._becomes(WAKE)
        self._inlet.scheduler.call_soon(self._next)

    def _next(self) -> None:
        if self._state is not DUE:  # it was stopped meanwhile
            return
        if self._wants_open:
            self._wants_open = False
            self._becomes(BEGIN)
            self._inlet.scheduler.submit(self._output.reopen, self._opened)
            return
        self._batch = batch = self._batch or self._batching.gather()
        if batch is None:
            self._becomes(REST)
        else:
            self._becomes(BEGIN)
            self._inlet.scheduler.submit(lambda: self._output.write(batch), self._written)

    def _opened(self, error: BaseException | None) -> None:
        if not self._went_well(error):
            self._wants_open = True
            return
        if not self._serving:
            self._serving = True
            self._inlet.serve(self.accept)
            self._inlet.on_reopen(self.reopen)
        self._next()

    def _written(self, error: BaseException | None) -> None:
        if not self._went_well(error):
            return
        batch, self._batch = self._batch, None
        assert batch is not None
        self._next()  # the disk is at work again before the acks go their way
        for block in batch.blocks:
            self._inlet.ack(block)

    def _went_well(self, error: BaseException | None) -> bool:
        self._tell()
        if error is None:
            self._backoff.reset()
            if self._trouble is not None:
                self._trouble = None
                self._inlet.restore()
            self._becomes(DONE)
            return True
        if isinstance(error, OSError):
            self._hold(explain(self._output.path, error))
        elif isinstance(error, WalflowError):
            self._hold(str(error))
        else:
            self.failure = error
            self._becomes(BUG)
            self.ended.set()
        return False

    def _hold(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._inlet.trigger(trouble)
        if self._inlet.upstream.replaceable:
            self._fail_all(NotWritten(trouble))
        if self._becomes(TROUBLE) is HELD:
            self._timer = self._inlet.scheduler.call_later(self._backoff.next(), self._retry)

    def _fail_all(self, cause: NotWritten) -> None:
        """After the breaker has triggered: what fails here must not come back at once. A batch that failed is nowhere in the
        file, or is taken back before the next one is written."""
        batch, self._batch = self._batch, None
        waiting = [*self._waiting]
        self._waiting.clear()
        for block in (*(batch.blocks if batch is not None else ()), *waiting):
            self._inlet.fail(block, cause)

    def _retry(self) -> None:
        self._timer = None
        self._becomes(RETRY)
        if self._inlet.upstream.replaceable and not self._wants_open:
            self._trouble = None
            self._inlet.restore()
        self._next()

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        notes, self._output.notes = self._output.notes, []
        for note in notes:
            self._inlet.log.warning(note)
