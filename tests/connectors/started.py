"""A connector that runs while a test looks at it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from walflow.runtime.loop import LoopScheduler

PATIENCE: Final = 100.0


@asynccontextmanager
async def started(
    run: Coroutine[Any, Any, None], scheduler: LoopScheduler | None = None
) -> AsyncIterator["asyncio.Task[None]"]:
    """Cancels it at the end. Raises what had ended it before. `scheduler`: its threads end with it."""
    task = asyncio.ensure_future(run)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if scheduler is not None:
            await scheduler.close()
        if not task.cancelled():
            task.result()
            raise AssertionError("it has ended by itself")


async def until(holds: Callable[[], object]) -> None:
    """Waits for what happens in the kernel, on a thread or in another process."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  # nothing tells the loop of it
            await asyncio.sleep(0.001)
