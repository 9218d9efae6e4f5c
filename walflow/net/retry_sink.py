"""A sink of requests that have their outcomes one by one, over a RetryQueue: what it holds, and its breaker."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from walflow.backoff import Backoff
from walflow.contract import FailedEvents, FailedPart, Inlet
from walflow.event import Block
from walflow.net.retry_queue import Failure, FailureVerdict, HeldPart, RetryQueue
from walflow.net.sent_block import NotConfirmed, NothingElse

P = TypeVar("P")


class RetrySink(Generic[P]):
    """`add`: blocks that came become parts of the queue. They wait for it, so that parts may be large. `fail`: a part fails.
    `blocks`: what it was made of. `halve`: a part of several events becomes two, each with the
    number of its events. `backoff`: of a sink that others can stand in for."""

    def __init__(
        self,
        inlet: Inlet,
        queue: RetryQueue[P],
        backoff: Backoff,
        *,
        add: Callable[[Sequence[Block]], None],
        fail: Callable[[P, NotConfirmed], None],
        blocks: Callable[[P], Sequence[Block]],
        halve: Callable[[P], Sequence[tuple[P, int]]] = lambda part: [(part, 1)],
        **peer: object,
    ) -> None:
        self._inlet = inlet
        self._queue = queue
        self._backoff = backoff
        self._add = add
        self._fail = fail
        self._blocks = blocks
        self._halve = halve
        self._peer = peer  # for the log line
        self._arrived: list[Block] = []
        self._changed = asyncio.Event()
        self._closed = False
        self._reason = ""  # why the breaker is triggered
        self._rests: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<RetrySink {self._queue!r}, {len(self._arrived)} blocks wait>"

    async def run(self, send: Callable[[HeldPart[P]], Awaitable[None]]) -> None:
        """Until it is cancelled. `send` calls `passed` or `failed`. What has no outcome at the end fails."""
        try:
            async with asyncio.TaskGroup() as group:
                self._inlet.serve(self._accept)
                self._inlet.retries(self._retries)
                await self._send_all(send, group)
        finally:
            self._closed = True
            if self._rests is not None:
                self._rests.cancel()
            self._fail_all(self._queue.drop_all(), stopped := NotConfirmed("the connector has stopped"))
            arrived, self._arrived = self._arrived, []
            for block in arrived:
                self._inlet.fail(block, stopped)

    async def _send_all(self, send: Callable[[HeldPart[P]], Awaitable[None]], group: asyncio.TaskGroup) -> None:
        now, queue = asyncio.get_running_loop().time, self._queue
        while True:
            self._changed.clear()
            self._gather()
            if queue.ask(now()):
                self._inlet.half_open()
                self._gather()
            while (held := queue.next(now())) is not None:
                group.create_task(_awaited(send(held)))
                self._gather()
            await self._wait(queue.due(now()))

    async def _wait(self, seconds: float | None) -> None:
        """For an outcome or a block, at most so long."""
        timer = None
        if seconds is not None:
            timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _gather(self) -> None:
        if self._arrived and self._queue.takes_more:
            arrived, self._arrived = self._arrived, []
            self._add(arrived)

    def _accept(self, block: Block) -> None:
        if self._closed or (self._reason and self._inlet.upstream.replaceable):
            self._inlet.fail(block, NotConfirmed(self._reason or "the connector has stopped"))
            return
        self._arrived.append(block)
        self._changed.set()
        if self._queue.asked:
            self._queue.answered()
            self._inlet.trigger(self._reason)  # it was half open

    # outcomes

    def passed(self, held: HeldPart[P]) -> None:
        """The peer has answered: it took the part, or will never take it."""
        self._queue.passed(held)
        self._backoff.reset()
        self._restore()
        self._changed.set()

    def failed(self, held: HeldPart[P], reason: str, failure: Failure) -> None:
        self._changed.set()
        blocks = self._blocks(held.part)
        self._inlet.failed_try(reason, blocks[0] if blocks else None)
        if self._inlet.upstream.replaceable:
            self._failed_replaceable(held, reason, failure)
            return
        held.cause = reason
        verdict = self._queue.failed(held, asyncio.get_running_loop().time(), failure)
        if self._queue.failing:
            row = f" ({self._queue.row} in a row)" if self._queue.row > 1 else ""
            self._trigger(f"{reason}{row}")
        if verdict is FailureVerdict.DIVIDED:
            self.divide(held)
        elif verdict is FailureVerdict.GIVEN_UP:
            self._fail(held.part, NotConfirmed(f"{reason} (attempt {held.failures})"))
        elif self._queue.asked and self._inlet.upstream.behind_log:
            # Asked for something new, and nothing came: the source may send so many events that are not acked, and these are
            # they. It keeps them for later, and sends others.
            self._fail_all(self._queue.drop_failed(), NothingElse(reason))

    def _retries(self, most: int) -> FailedEvents:
        found = self._queue.troubled(asyncio.get_running_loop().time())
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
        self._trigger(reason)
        self._fail(held.part, NotConfirmed(reason))
        self._fail_all(self._queue.drop_waiting(), NotConfirmed(reason))
        if self._rests is not None:
            self._rests.cancel()
        self._rests = asyncio.get_running_loop().call_later(seconds, self._restore)

    def _fail_all(self, parts: Sequence[P], cause: NotConfirmed) -> None:
        for part in parts:
            self._fail(part, cause)

    # the breaker

    def _trigger(self, reason: str) -> None:
        if not self._reason:
            self._inlet.log.warning("cannot deliver", **self._peer, reason=reason)
        self._reason = reason
        if not self._queue.asked:
            self._inlet.trigger(reason)

    def _restore(self) -> None:
        if self._reason:
            self._reason = ""
            self._inlet.restore()


def _position(blocks: Sequence[Block]) -> int:
    """Of the first event, in its log; 0: it has none."""
    positions = blocks[0].positions if blocks else None
    return positions[0] if positions else 0


async def _awaited(outcome: Awaitable[None]) -> None:
    await outcome
