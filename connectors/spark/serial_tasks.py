"""Work that touches the disk, for a peer that may go away before it is done."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from walflow import DiskFull, Half, WalflowError

T = TypeVar("T")


class SerialTasks:
    """One piece of work at a time, in order. A caller that is cancelled stops none of it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def take(self, work: Coroutine[object, object, T]) -> T:
        """What it comes to, once its turn has come."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """As `take`, and it need not be waited for."""
        return self.beside(self._in_turn(work))

    def beside(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Out of turn: it runs now."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def end(self) -> None:
        """After all of it."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _in_turn(self, work: Coroutine[object, object, T]) -> T:
        async with self._turn:
            return await work

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone, and then its error is not looked at


async def on_log_thread(half: Half, call: Callable[[], None]) -> None:
    """In order with the log's commits and checkpoints. Raises DiskFull; any other error ends the process, for a log that
    failed can promise nothing any more."""
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    half.scheduler.submit(call, lambda error: None if ended.done() else ended.set_result(error))
    error = await ended
    if isinstance(error, DiskFull):
        raise error
    if error is not None:
        half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
