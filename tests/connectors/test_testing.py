"""The world that tests of connectors stand in, itself tested."""

import asyncio

import pytest

from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


def test_calls_timers_and_jobs_in_virtual_time() -> None:
    scheduler = VirtualScheduler()
    order: list[object] = []
    scheduler.call_later(2, lambda: order.append(("two", scheduler.time())))
    scheduler.call_later(1, lambda: scheduler.call_soon(lambda: order.append(("one", scheduler.time()))))
    scheduler.call_later(1.5, lambda: order.append("never")).cancel()
    scheduler.submit(lambda: order.append("job"), lambda error: order.append(error))
    scheduler.call_soon(lambda: order.append("soon"))
    assert scheduler.timers == [1, 2]
    scheduler.advance(3)
    assert order == ["soon", "job", None, ("one", 1), ("two", 2)]
    assert (scheduler.time(), scheduler.timers) == (3, [])


def test_a_job_in_the_air() -> None:
    scheduler = VirtualScheduler()
    errors: list[BaseException | None] = []

    def job() -> None:
        raise ValueError("no")

    scheduler.holding = True
    scheduler.submit(job, errors.append)
    assert not scheduler.run()
    assert (scheduler.in_air, errors) == (1, [])
    scheduler.work()
    assert [str(error) for error in errors] == ["no"]


async def test_blocks_wait_for_whoever_takes_them() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    first, second = inlet.lines_of(b"1"), inlet.lines_of(b"2")
    inlet.give(first)
    assert await inlet.take() == [first]
    taking = asyncio.ensure_future(inlet.take())
    await asyncio.sleep(0)
    inlet.give(second)
    assert await taking == [second]
    inlet.ack(first)
    inlet.fail(second, ValueError("no"))
    assert (inlet.acked, inlet.failed) == ([b"1\n"], [(b"2\n", "no")])
    assert [receipt.cause is None for receipt in inlet.settled] == [True, False]
    with pytest.raises(AssertionError, match="had an outcome already"):
        inlet.ack(first)


async def test_an_outlet_that_is_paused() -> None:
    inlet, outlet = MemoryInlet(VirtualScheduler()), MemoryOutlet(VirtualScheduler(), paused=True)
    block = inlet.lines_of(b"1")
    ready: list[str] = []
    outlet.on_ready(lambda: ready.append("again"))
    assert not outlet.send(block)
    waiting = asyncio.ensure_future(outlet.ready())
    await asyncio.sleep(0)
    outlet.resume()
    await waiting
    assert outlet.send(block)
    assert (outlet.sent, ready) == ([block], ["again"])
    inlet.ack(block)


def test_what_is_logged() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    inlet.log.warning("careful", of="this")
    assert inlet.lines == ["careful"]
    assert inlet.logged == [{"level": "warning", "of": "this", "event": "careful"}]
