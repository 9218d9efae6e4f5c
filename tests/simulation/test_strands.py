"""Jobs on threads of which one is awake at a time."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from walflow.testing.simulation import Machine, SimulatedLoop
from walflow.testing.simulation.strands import StrandWorker


def told(seed: int) -> list[str]:
    """What two workers do with one disk."""
    dice = Random(seed)
    loop = SimulatedLoop(dice)
    seen: list[str] = []

    async def story() -> None:
        machine = Machine(loop, dice)
        disk = machine.disk

        def ended(done: Callable[[BaseException | None], None], error: BaseException | None) -> None:
            done(error)

        def job(name: str) -> None:
            fd = disk.open(f"/{name}", create=True)
            for number in range(3):
                disk.write(fd, [b"x"], number)
                seen.append(f"{name}{number}")
            disk.sync(fd)
            disk.close(fd)

        def over(name: str, error: BaseException | None) -> None:
            seen.append(f"{name} {error}")

        workers = [StrandWorker(name, loop, ended, lambda: 0.001) for name in "ab"]
        for worker, name in zip(workers, "ab", strict=True):
            worker.put(partial(job, name), partial(over, name))
        await asyncio.sleep(1)
        for worker in workers:
            await worker.stop()

    loop.run_until_complete(story())
    loop.close()
    return seen


def test_jobs_take_turns_at_each_call_of_the_disk_as_the_seed_says() -> None:
    orders = {tuple(told(seed)) for seed in range(8)}
    assert len(orders) > 3
    for order in orders:
        assert [one for one in order if one[0] == "a"] == ["a0", "a1", "a2", "a None"]
        assert [one for one in order if one[0] == "b"] == ["b0", "b1", "b2", "b None"]
    assert told(3) == told(3)


def test_an_error_of_a_job_is_its_callers() -> None:
    loop = SimulatedLoop(Random(1))
    seen: list[object] = []

    async def story() -> None:
        worker = StrandWorker("one", loop, lambda done, error: done(error), lambda: 0.0)

        def fail() -> None:
            raise OSError(5, "no")

        worker.put(fail, seen.append)
        await asyncio.sleep(1)
        await worker.stop()

    loop.run_until_complete(story())
    loop.close()
    assert [type(one) for one in seen] == [OSError]


@pytest.mark.parametrize("how", ["hangs", "runs"])
def test_of_a_killed_worker_nothing_is_heard(how: str) -> None:
    loop = SimulatedLoop(Random(1))
    seen: list[object] = []

    async def story() -> None:
        machine = Machine(loop, Random(1))
        worker = StrandWorker("one", loop, lambda done, error: done(error), lambda: 0.0)
        if how == "hangs":
            machine.weather.hangs = frozenset({"create"})
        worker.put(lambda: machine.disk.close(machine.disk.open("/f", create=True)), seen.append)
        await asyncio.sleep(1 if how == "hangs" else 0)
        worker.kill()
        machine.weather.clear()
        await asyncio.sleep(1)

    loop.run_until_complete(story())
    loop.close()
    assert seen == []
