"""A sink of requests, many at a time, that have their outcomes one by one. What is tried next, a RetryQueue
decides."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from walflow.backoff import Backoff
from walflow.contract import FailedEvents, FailedPart, Inlet, Timer
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.net.retry_queue import Failure, FailureVerdict, HeldPart, RetryQueue
from walflow.net.sent_block import NoneConfirmed, NotConfirmed, NothingElse
from walflow.sinks.engine import NotDelivered, SinkEngine
from walflow.sinks.sink_end import close
from walflow.sinks.states import BEGIN, CLOSED, DONE, IDLE, REST

P = TypeVar("P")

STEP: Final = 256  # events that become parts in one turn of the loop
SEARCHED: Final = 10_000  # events in which one is searched for that passes, while nothing gets through


class RetrySink(SinkEngine, Generic[P]):
    """`add`: blocks that came become parts of the queue, `step` events or STEP in one turn of the loop. They wait
    for it, so that parts may be large, and few are held. `fail`: a part fails. `blocks`: what it was made of.
    `halve`: a part of several events becomes two, each with the number of its events. `backoff`: of a sink that
    others can stand in for."""

    def __init__(
        self,
        inlet: Inlet,
        queue: RetryQueue[P],
        backoff: Backoff,
        *,
        add: Callable[[Sequence[Block]], None],
        fail: Callable[[P, WalflowError], None],
        blocks: Callable[[P], Sequence[Block]],
        halve: Callable[[P], Sequence[tuple[P, int]]] = lambda part: [(part, 1)],
        step: int = 0,
        **peer: object,
    ) -> None:
        super().__init__(inlet, IDLE, gathers=False)
        self._queue = queue
        self._backoff = backoff
        self._add = add
        self._fail = fail
        self._blocks = blocks
        self._halve = halve
        self._step = max(STEP, step)
        self._wanted = 0  # events that are to become parts
        self._searches = False  # for one that passes
        self._peer = peer  # for the log line
        self._changed = asyncio.Event()
        self._refused: list[P] = []  # what has just failed, and others take
        self._rests: Timer | None = None

    async def run(self, send: Callable[[HeldPart[P]], Awaitable[None]]) -> None:
        """Until it is cancelled. `send` calls `passed` or `failed`. What has no outcome at the end fails."""
        try:
            async with asyncio.TaskGroup() as group:
                self._inlet.serve(self.accept)
                self._inlet.retries(self._retries)
                await self._send_all(send, group)
        finally:
            await close(self)

    async def _send_all(self, send: Callable[[HeldPart[P]], Awaitable[None]], group: asyncio.TaskGroup) -> None:
        now, queue = self._inlet.scheduler.time, self._queue
        while True:
            self._changed.clear()
            self._gather()
            if queue.ask(now()):
                self.breaker.ask()
                self._gather()
            while (held := queue.next(now())) is not None:
                group.create_task(_awaited(send(held)))
                self._gather()
            if self._wants():
                await asyncio.sleep(0)  # others have their turn
            else:
                await self._wait(queue.due(now()))

    async def _wait(self, seconds: float | None) -> None:
        """For an outcome or a block, at most so long."""
        timer = None
        if seconds is not None:
            timer = self._inlet.scheduler.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _wants(self) -> bool:
        """More of what waits: if all in hand was tried, and once when nothing gets through any more."""
        failing = self._queue.failing
        if self.waiting and (self._queue.takes_more or (failing and not self._searches)):
            self._wanted = SEARCHED if failing else self._step
        self._searches = failing
        return bool(self.waiting) and self._wanted > 0

    def _gather(self) -> None:
        if self._wants():
            self._becomes(BEGIN)
            blocks = self._some()
            self._wanted = self._wanted - sum(block.frames.count for block in blocks) if self.waiting else 0
            self._add(blocks)
            self._becomes(DONE if self.waiting else REST)  # what is rejected may bring more

    def _some(self) -> list[Block]:
        """The first that wait, a step of them."""
        blocks: list[Block] = []
        room = self._step
        while self.waiting and room > 0:
            block = self.waiting.popleft()
            if block.frames.count > room:
                block, *others = block.split(_steps(block, room, self._step))
                self.waiting.extendleft(reversed(others))
            blocks.append(block)
            room -= block.frames.count
        return blocks

    def _next(self) -> None:
        self._changed.set()

    def accept(self, block: Block) -> None:
        super().accept(block)
        self._changed.set()
        if self._queue.asked and self.state is not CLOSED:
            self._queue.answered()
            self.breaker.answered()

    # outcomes

    def passed(self, held: HeldPart[P]) -> None:
        """The peer has answered: it took the part, or will never take it."""
        self._queue.passed(held)
        self._backoff.reset()
        self._well()
        self._changed.set()

    def failed(self, held: HeldPart[P], reason: str, failure: Failure) -> None:
        self._changed.set()
        blocks = self._blocks(held.part)
        self._inlet.failed_try(reason, blocks[0] if blocks else None)
        if self._inlet.upstream.replaceable:
            self._failed_replaceable(held, reason, failure)
            return
        held.cause = reason
        verdict = self._queue.failed(held, self._inlet.scheduler.time(), failure)
        if self._queue.failing:
            row = f" ({self._queue.rounds.row} in a row)" if self._queue.rounds.row > 1 else ""
            self._troubled(NotConfirmed(f"{reason}{row}"))
        if verdict is FailureVerdict.DIVIDED:
            self.divide(held)
        elif verdict is FailureVerdict.GIVEN_UP:
            self._fail(held.part, NotConfirmed(f"{reason} (attempt {held.failures})"))
        elif self._queue.asked and self._inlet.upstream.behind_log:
            # Asked for something new, and nothing came: the source may send so many events that are not acked, and
            # these are they. It keeps them for later, and sends others.
            self._fail_all(self._queue.drop_failed(), NothingElse(reason))

    def _retries(self, most: int) -> FailedEvents:
        found = self._queue.troubled(self._inlet.scheduler.time())
        parts = [
            FailedPart(
                _position(self._blocks(held.part)),
                held.events,
                self._inlet.name,
                held.failures,
                held.counted,
                seconds,
                held.cause,
            )
            for held, seconds in found[:most]
        ]
        return FailedEvents(sum(held.events for held, _ in found), parts)

    def divide(self, held: HeldPart[P]) -> None:
        """Of a part that has passed, and that its peer refuses for one of its events."""
        self._queue.divide(held, self._halve(held.part))
        self._changed.set()

    def _failed_replaceable(self, held: HeldPart[P], reason: str, failure: Failure) -> None:
        """Others take what is here. After a wait, the next event is to show whether it can be sent."""
        self._queue.drop(held)
        seconds = max(self._backoff.next(), failure.wait)
        self._refused = [held.part]
        self._troubled(NotConfirmed(reason) if held.events == 1 else NoneConfirmed(reason))
        self._end_wait()
        self._rests = self._inlet.scheduler.call_later(seconds, self._well)

    def _end_wait(self) -> None:
        if self._rests is not None:
            self._rests.cancel()
            self._rests = None

    def _troubled(self, cause: WalflowError) -> None:
        if self.trouble is None:
            self._inlet.log.warning("cannot deliver", **self._peer, reason=str(cause))
        super()._troubled(cause)

    def _stop_cause(self) -> NotConfirmed:
        return NotConfirmed("the connector has stopped")

    def _fail_held(self, cause: WalflowError) -> None:
        refused, self._refused = self._refused, []
        self._fail_all(refused, cause)
        untried = NotDelivered(str(cause))
        self._fail_all(self._queue.drop_all() if self.state is CLOSED else self._queue.drop_waiting(), untried)
        super()._fail_held(untried)

    def _fail_all(self, parts: Sequence[P], cause: WalflowError) -> None:
        for part in parts:
            self._fail(part, cause)


def _steps(block: Block, first: int, step: int) -> list[int]:
    """Numbers of events, `first` of them and then `step` each. Those of one position stay together, for a peer may
    tell them apart by their number there; and all do, if their positions are not known."""
    count, positions = block.frames.count, block.positions
    if positions is None and block.origin is not None:
        return [count]
    sizes: list[int] = []
    start, stop = 0, first
    while stop < count:
        while positions is not None and stop < count and positions[stop] == positions[stop - 1]:
            stop += 1
        sizes.append(stop - start)
        start, stop = stop, stop + step
    return [*sizes, count - start] if start < count else sizes


def _position(blocks: Sequence[Block]) -> int:
    """Of the first event, in its log; 0: it has none."""
    positions = blocks[0].positions if blocks else None
    return positions[0] if positions else 0


async def _awaited(outcome: Awaitable[None]) -> None:
    await outcome
