"""What every sink does alike: the blocks that wait, the breaker, `replaceable`, re-entry, the stop.

A `JobSink` and a `PeerSink` are this engine, each with its own way to begin work and to hear how it ended.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from walflow.contract import Inlet
from walflow.errors import Blameless, WalflowError
from walflow.event import Block
from walflow.sinks.breaker import SinkBreaker, StopReason
from walflow.sinks.states import (
    CLOSE,
    CLOSED,
    IDLE,
    LOST,
    STOP,
    STOPPED,
    STOPPING,
    TRANSITIONS,
    WAKE,
    SinkEvent,
    SinkState,
)

FIRST_DELAY: Final = 0.1  # seconds after a failure until the next try
LAST_DELAY: Final = 10.0


class NotDelivered(Blameless):
    """The sink has no outcome for the event. It may be sent again, or to another output."""


class SinkEngine:
    """`gathers`: work begins in the next turn of the loop, with all that came in this one; otherwise within `accept`.
    `breaker` and `key`: see `SinkBreaker`."""

    def __init__(
        self,
        inlet: Inlet,
        state: SinkState,
        *,
        gathers: bool = True,
        breaker: SinkBreaker | None = None,
        key: str = "",
    ) -> None:
        self.state = state
        self.waiting: deque[Block] = deque()
        self.breaker = breaker or SinkBreaker(inlet)
        self.trouble: WalflowError | None = None  # why nothing can be delivered now
        self.is_full = False  # enough waits
        self._inlet = inlet
        self._gathers = gathers
        self._key = key
        self._stopped: Callable[[], None] = _untold

    def __repr__(self) -> str:
        state = f"{self.state.name.lower()}, {len(self.waiting)} blocks wait, {self.trouble or 'well'}"
        return f"<{type(self).__name__} {self._inlet.name} {state}>"

    # what comes

    def accept(self, block: Block) -> None:
        """`Inlet.serve` calls it."""
        if not block.frames.count:  # there is nothing to deliver, and no end of a last event to wait for
            self._inlet.ack(block)
            return
        state = self.state
        if state is IDLE:
            self.waiting.append(block)
            self.wake()
        elif state is CLOSED:
            self.fail(block, self._stop_cause())
        elif self.trouble is not None and self._inlet.upstream.replaceable:
            self.fail(block, NotDelivered(str(self.trouble)))
        elif state is LOST:
            self._leave(block)
        else:
            self.waiting.append(block)

    def wake(self) -> None:
        """There is something to do: a block came, or there is room again."""
        if self.state is not IDLE:
            return
        self._becomes(WAKE)
        if self._gathers:
            self._inlet.scheduler.call_soon(self._next)
        else:
            self._next()

    def _next(self) -> None:
        """Begins what is due."""
        raise NotImplementedError

    def _leave(self, block: Block) -> None:
        """A block that a lost sink cannot deliver."""
        self.waiting.append(block)

    # the breaker

    def _failed_try(self, cause: WalflowError) -> None:
        """Every failed try is counted, although the breaker triggers once."""
        self._inlet.failed_try(str(cause))
        self._troubled(cause)

    def _troubled(self, cause: WalflowError) -> None:
        """The breaker first: what fails here must not come back before something can be delivered."""
        self.trouble = cause
        self.breaker.trigger(StopReason.TROUBLE, str(cause), self._key)
        if self._inlet.upstream.replaceable:
            self._fail_held(cause)

    def _well(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self.breaker.restore(StopReason.TROUBLE, self._key)

    def full(self, reason: str) -> None:
        """Enough waits: the sources stop. "": they may go on. Work goes on meanwhile. What has not begun goes to
        another output, if there is one."""
        self.is_full = bool(reason)
        if not reason:
            self.breaker.restore(StopReason.FULL, self._key)
            return
        self.breaker.trigger(StopReason.FULL, reason, self._key)
        if self._inlet.upstream.replaceable and self.waiting:
            self._fail_waiting(NotDelivered(reason))

    # the end

    def stop(self, stopped: Callable[[], None]) -> None:
        """Begins nothing any more. `stopped` is called once nothing is under way; call `closed` then."""
        self._end_wait()
        if self._becomes(STOP) is STOPPING:
            self._stopped = stopped
        else:
            stopped()

    def closed(self) -> None:
        """What has no outcome fails, and what comes later."""
        self._becomes(CLOSE)
        self._fail_held(self._stop_cause())

    def _end_wait(self) -> None:
        """Ends the wait for the next try."""

    def _stop_cause(self) -> WalflowError:
        return NotDelivered(f"{self._inlet.name} has stopped")

    # outcomes: of every block that was accepted, or of its parts

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        self._inlet.fail(block, cause, done)

    def _fail_held(self, cause: WalflowError) -> None:
        """All that has no outcome, and is not under way."""
        self._fail_waiting(cause)

    def _fail_waiting(self, cause: WalflowError) -> None:
        waiting = [*self.waiting]  # what fails may come again within the call
        self.waiting.clear()
        for block in waiting:
            self.fail(block, cause)

    def _becomes(self, event: SinkEvent) -> SinkState:
        self.state = state = TRANSITIONS[self.state][event]
        if state is STOPPED:
            stopped, self._stopped = self._stopped, _untold
            stopped()
        return state


def _untold() -> None: ...
