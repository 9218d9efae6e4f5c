"""Blocking calls of a client, on the scheduler's thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from walflow.contract import Scheduler

T = TypeVar("T")


async def on_thread(scheduler: Scheduler, job: Callable[[], T]) -> T:
    """What it returns or raises. If the caller is cancelled, the job goes on, and the next one waits for it."""
    result: list[T] = []
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    scheduler.submit(lambda: result.append(job()), done)
    await ended
    return result[0]
