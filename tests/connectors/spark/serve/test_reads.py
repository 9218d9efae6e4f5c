"""Reads of the log for Spark: on the runtime's threads, so one that hangs is named and holds up no other peer."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import pytest

from connectors.spark.serve.reads import Reads
from walflow.metrics import Metrics
from walflow.runtime.jobs import LONG, LongJobs
from walflow.runtime.loop import LoopScheduler


class World:
    def __init__(self) -> None:
        self.jobs = LongJobs()
        self.jobs.measure("main::log", Metrics(), {})
        self.scheduler = LoopScheduler("main::log", jobs=self.jobs)
        self.reads = Reads("main::log", self.scheduler)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.scheduler.close()


class Walk:
    def __init__(self, done: list[str], name: str) -> None:
        self.name = name
        self._done = done

    def close(self) -> None:
        self._done.append(f"{self.name} closed")


async def test_a_read_that_hangs_is_named_and_another_walk_goes_on(world: World) -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def hangs() -> str:
        begun.set()
        assert may_end.wait(100)
        done.append("one read")
        return "one"

    with world.reads.of(Walk(done, "one")) as one:
        coming = one.run(hangs)
        with world.reads.of(Walk(done, "two")) as two:
            assert await two.run(lambda: "two") == "two"
            await asyncio.to_thread(begun.wait)
            for _ in range(LONG + 1):
                world.jobs.look()
            assert [job.who for job in world.jobs.now()] == ["main::log to Spark 1"]
        coming.cancel()
    may_end.set()
    await world.reads.end()
    assert done.index("one read") < done.index("one closed"), "not under the thread that reads"
    assert "two closed" in done


async def test_what_a_read_raises_comes_to_who_waits_for_it(world: World) -> None:
    def fails() -> None:
        raise OSError("no")

    with world.reads.of(Walk([], "one")) as thread:
        with pytest.raises(OSError, match="no"):
            await thread.run(fails)
        assert await thread.run(lambda: 3) == 3
    assert repr(world.reads) == "<Reads of 0 walks>"


async def test_an_error_that_nobody_waits_for_is_no_trouble_of_the_loop(world: World) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

    def fails() -> None:
        raise OSError("no")

    with world.reads.of(Walk([], "one")) as thread:
        coming = thread.run(fails)
        await thread.run(lambda: None)
    assert coming.done()
    del coming
    gc.collect()
    assert told == []
