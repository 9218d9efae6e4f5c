"""An event loop in virtual time."""

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from walflow.testing.simulation import Lives, SimulatedLoop, StandsStill


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    made = SimulatedLoop(Random(1))
    yield made
    made.close()


def run(loop: SimulatedLoop, coroutine: Coroutine[Any, Any, object]) -> object:
    return loop.run_until_complete(coroutine)


def test_an_hour_takes_no_time(loop: SimulatedLoop) -> None:
    async def wait() -> float:
        async with asyncio.TaskGroup() as group:
            for seconds in range(3600):
                group.create_task(asyncio.sleep(seconds))
        return asyncio.get_running_loop().time()

    assert run(loop, wait()) == pytest.approx(3599)


def test_what_asyncio_has_runs_on_it(loop: SimulatedLoop) -> None:
    async def wait() -> list[object]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def feed() -> None:
            for number in range(3):
                await queue.put(number)

        feeding = asyncio.create_task(feed())
        found: list[object] = [await queue.get() for _ in range(3)]
        await feeding
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            found.append("late")
        return found

    assert run(loop, wait()) == [0, 1, 2, "late"]


def test_calls_keep_their_order_and_timers_of_one_moment_do_not() -> None:
    orders: set[tuple[int, ...]] = set()
    for seed in range(20):
        loop = SimulatedLoop(Random(seed))
        soon: list[int] = []
        later: list[int] = []
        for number in range(4):
            loop.call_soon(soon.append, number)
            loop.call_at(1.0, later.append, number)
        loop.run_until_complete(asyncio.sleep(2))
        loop.close()
        assert soon == [0, 1, 2, 3]
        orders.add(tuple(later))
    assert len(orders) > 5


def test_a_wait_without_end_is_told(loop: SimulatedLoop) -> None:
    with pytest.raises(StandsStill, match="nothing is ready"):
        run(loop, asyncio.Event().wait())


def test_a_loop_that_turns_and_gets_nowhere_is_told(loop: SimulatedLoop) -> None:
    async def turn() -> None:
        while True:  # noqa: ASYNC110  # it is the fault that is looked for
            await asyncio.sleep(0)

    with pytest.raises(StandsStill, match="no time passed"):
        run(loop, turn())


def test_an_error_of_the_story_ends_the_loop() -> None:
    loop = SimulatedLoop(Random(1), Lives())

    def fail() -> None:
        raise ValueError("mine")

    loop.call_later(1, fail)
    with pytest.raises(ValueError, match="mine"):
        loop.run_until_complete(asyncio.sleep(2))
    loop.close()
