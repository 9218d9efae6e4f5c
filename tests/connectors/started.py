"""A connector that runs while a test looks at it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from walflow.runtime.loop import LoopScheduler


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
