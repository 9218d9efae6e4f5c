"""Work that touches the disk: in turn, never cut off, and what became of it."""

import asyncio

import pytest

from connectors.spark.serial_tasks import SerialTasks, on_log_thread
from walflow import DiskFull, FailStop
from walflow.testing import Fatal, MemoryOutlet, VirtualScheduler


class Work:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.begun = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def do(self, name: str) -> str:
        self.log.append(f"{name} begins")
        self.begun.release()
        await self.go_on.wait()
        self.log.append(f"{name} ends")
        return name

    async def fail(self) -> None:
        raise ValueError("no")


async def test_one_at_a_time_in_order() -> None:
    turns, work = SerialTasks(), Work()
    first = turns.begin(lambda: work.do("first"))
    second = asyncio.ensure_future(turns.take(lambda: work.do("second")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.log == ["first begins"]
    work.go_on.set()
    assert (await first, await second) == ("first", "second")
    assert work.log == ["first begins", "first ends", "second begins", "second ends"]


async def test_what_runs_beside_waits_for_none_and_is_waited_for_at_the_end() -> None:
    turns, work = SerialTasks(), Work()
    turns.begin(lambda: work.do("first"))
    turns.beside(work.do("beside"))
    ending = asyncio.ensure_future(turns.end())
    await work.begun.acquire()
    await work.begun.acquire()
    assert not ending.done()
    work.go_on.set()
    await ending
    assert sorted(work.log) == ["beside begins", "beside ends", "first begins", "first ends"]


async def test_a_caller_that_is_cancelled_stops_nothing() -> None:
    turns, work = SerialTasks(), Work()
    caller = asyncio.ensure_future(turns.take(lambda: work.do("first")))
    await work.begun.acquire()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    work.go_on.set()
    await turns.end()
    assert work.log == ["first begins", "first ends"]


async def test_an_error_is_the_callers_and_the_next_one_has_its_turn() -> None:
    turns, work = SerialTasks(), Work()
    work.go_on.set()
    with pytest.raises(ValueError, match="no"):
        await turns.take(work.fail)
    turns.begin(work.fail)  # no caller: nothing is said of it
    assert await turns.take(lambda: work.do("next")) == "next"


async def test_with_nothing_to_wait_for_the_end_is_at_once() -> None:
    await SerialTasks().end()


def _raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "named"), [(DiskFull("no room"), DiskFull), (FailStop("failed"), Fatal), (OSError(5, "broken"), Fatal)]
)
async def test_a_full_disk_is_told_and_any_other_error_ends_the_process(
    error: Exception, named: type[Exception]
) -> None:
    out = MemoryOutlet(VirtualScheduler(), name="f::spark")
    working = asyncio.ensure_future(on_log_thread(out, lambda: _raising(error)))
    await asyncio.sleep(0)
    out.scheduler.run()
    with pytest.raises(named):
        await working


async def test_whoever_waits_may_go_before_the_thread_is_done() -> None:
    out = MemoryOutlet(VirtualScheduler(), name="f::spark")
    working = asyncio.ensure_future(on_log_thread(out, lambda: None))
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    out.scheduler.run()
    assert out.scheduler.in_air == 0
