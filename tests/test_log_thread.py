"""What a log reads on its thread before it runs."""

import asyncio

from walflow.errors import FailStop, ReadFailed
from walflow.log_thread import read_on_thread
from walflow.testing import MemoryOutlet, VirtualScheduler


async def test_a_disk_that_cannot_read_is_asked_again_and_another_error_is_the_callers() -> None:
    half = MemoryOutlet(VirtualScheduler())
    failures = [ReadFailed("bad"), ReadFailed("bad"), ReadFailed("bad")]
    done = 0

    def job() -> None:
        nonlocal done
        if failures:
            raise failures.pop()
        done += 1
        raise FailStop("worse")

    task = asyncio.ensure_future(read_on_thread(half, job))
    while not task.done():
        await asyncio.sleep(0)
        half.scheduler.advance(1.0)
    assert isinstance(task.result(), FailStop)
    assert done == 1
    said = [(line["event"], line["again_in"]) for line in half.logged]
    assert said == [("log not read", 1.0), ("log not read", 2.0), ("log not read", 4.0)]
