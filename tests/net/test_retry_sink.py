"""How many of the events that wait become parts, and when: in the real loop, with a peer that is told."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import cast

from hypothesis import given, strategies as st

from walflow import Block
from walflow.backoff import Backoff
from walflow.event import Origin
from walflow.net import Failure, HeldPart, RetryQueue, RetrySink
from walflow.net.retry_sink import SEARCHED, STEP
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, VirtualScheduler

AWAY = Failure(math.inf, counts=False, wait=3600.0)


class Requests:
    """Each event is a part. `parts`: how many each call of `add` made; `largest`: of those of one turn of the
    loop."""

    def __init__(self, *, step: int = 0) -> None:
        self.scheduler = LoopScheduler("requests")
        self.inlet = MemoryInlet(cast(VirtualScheduler, self.scheduler), behind_log=True)
        self.queue = RetryQueue[Block](1, 3, Backoff(0.1, 10.0))
        self.sink = RetrySink(
            self.inlet,
            self.queue,
            Backoff(0.1, 10.0),
            add=self._add,
            fail=self._fail,
            blocks=lambda block: [block],
            step=step,
        )
        self.added: list[Block] = []
        self.parts: list[int] = []
        self.largest = 0

    def _add(self, blocks: Sequence[Block]) -> None:
        self.added += blocks
        self.parts.append(sum(block.frames.count for block in blocks))
        for block in blocks:
            self.queue.add((one, 1) for one in block.split([1] * block.frames.count))

    def _fail(self, part: Block, cause: BaseException) -> None:
        self.inlet.fail(part, cause)

    @property
    def failed(self) -> int:
        """Events."""
        return sum(data.count(b"\n") for data, _ in self.inlet.failed)

    async def taken(self, held: HeldPart[Block]) -> None:
        self.sink.passed(held)
        self.inlet.ack(held.part)

    async def turns(self, most: int) -> None:
        """So many of the loop."""
        for _ in range(most):
            before = sum(self.parts)
            await asyncio.sleep(0)
            self.largest = max(self.largest, sum(self.parts) - before)

    async def run(
        self, send: Callable[[HeldPart[Block]], Awaitable[None]], until: Callable[[], bool], *blocks: Block
    ) -> None:
        running = asyncio.create_task(self.sink.run(send))
        self.inlet.give(*blocks)
        try:
            while not until():
                await self.turns(1)
            await self.turns(20)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self.scheduler.close()


def lines(inlet: MemoryInlet, events: int) -> Block:
    return inlet.lines_of(*[b"1"] * events)


async def no_answer(_: HeldPart[Block]) -> None:
    await asyncio.Event().wait()


async def test_of_what_waits_only_what_can_be_sent_soon_becomes_parts() -> None:
    """The rest stays whole, and fails whole at the end."""
    requests = Requests()
    blocks = [lines(requests.inlet, 1000) for _ in range(20)]
    await requests.run(no_answer, lambda: bool(requests.parts), *blocks)
    assert requests.parts == [STEP]
    assert len(requests.inlet.failed) == STEP + 3 + 19, "the parts, the rest of the first block, the others"
    assert requests.failed == 20_000


async def test_what_comes_while_enough_is_in_hand_waits_so_that_parts_may_be_large() -> None:
    requests = Requests()
    more = [lines(requests.inlet, 10) for _ in range(3)]

    def given() -> bool:
        if requests.parts and more:
            requests.inlet.give(more.pop())
        return not more

    await requests.run(no_answer, given, lines(requests.inlet, 10))
    assert requests.parts == [10]


async def test_while_nothing_gets_through_a_good_event_is_searched_for_and_each_turn_is_left_to_others() -> None:
    requests = Requests()

    async def away(held: HeldPart[Block]) -> None:
        requests.sink.failed(held, "refused", AWAY)

    blocks = [lines(requests.inlet, 3000) for _ in range(5)]
    await requests.run(away, lambda: sum(requests.parts) >= SEARCHED, *blocks)
    assert SEARCHED <= sum(requests.parts) < SEARCHED + 2 * STEP
    assert requests.largest <= STEP
    assert requests.failed == 15_000


async def test_all_that_waits_is_taken_in_its_order_when_it_can_be_sent() -> None:
    requests = Requests()

    payloads = [b"%d" % number for number in range(3 * STEP)]
    blocks = [requests.inlet.lines_of(*payloads[: STEP + 1]), requests.inlet.lines_of(*payloads[STEP + 1 :])]
    await requests.run(requests.taken, lambda: len(requests.inlet.acked) == len(payloads), *blocks)
    assert requests.inlet.acked == [payload + b"\n" for payload in payloads]
    assert requests.parts == [STEP] * 3


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.booleans())
def test_events_of_one_position_stay_together(runs: Sequence[int], known: bool) -> None:
    """Their peer may tell them apart by their number there. If the positions are not known, nothing is cut."""
    positions = [position for position, count in enumerate(runs, 1) for _ in range(count * 20)]

    async def run() -> list[Block]:
        requests = Requests()
        block = lines(requests.inlet, len(positions))
        block.origin = Origin("log", 1, len(runs), 1)
        block.positions = positions if known else None
        await requests.run(requests.taken, lambda: len(requests.inlet.acked) == len(positions), block)
        return requests.added

    added = asyncio.run(run())
    if not known:
        assert [block.frames.count for block in added] == [len(positions)]
        return
    cut = [[*(block.positions or ())] for block in added]
    assert [position for part in cut for position in part] == positions
    assert all(one[-1] < other[0] for one, other in pairwise(cut))
    assert all(len(part) < STEP + 100 for part in cut)


async def test_a_sink_of_batches_takes_larger_steps() -> None:
    requests = Requests(step=4 * STEP)
    await requests.run(no_answer, lambda: bool(requests.parts), lines(requests.inlet, 10 * STEP))
    assert requests.parts == [4 * STEP]
