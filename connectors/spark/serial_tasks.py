"""Work on the disk for a peer that may disconnect before the work is done."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from walflow import DiskFull, Half, WalflowError

T = TypeVar("T")


class SerialTasks:
    """Runs one piece of work at a time, in order. Cancelling a caller does not stop its work."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def take(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """The result of the work, when its turn has come."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Callable[[], Coroutine[object, object, T]]) -> "asyncio.Task[T]":
        """Like `take`, but the caller need not wait."""
        return self.beside(self._in_turn(work))

    def beside(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Runs the work now, out of turn."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def end(self) -> None:
        """Waits for all work."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _in_turn(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        async with self._turn:
            return await work()  # made only now: a task that ends before its turn leaves no coroutine behind

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone, and then its error is not looked at


async def on_log_thread(half: Half, call: Callable[[], None]) -> None:
    """In order with the log's commits and checkpoints. Raises DiskFull; any other error ends the process, for a log
    that failed can promise nothing any more."""
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    half.scheduler.submit(call, lambda error: None if ended.done() else ended.set_result(error))
    error = await ended
    if isinstance(error, DiskFull):
        raise error
    if error is not None:
        half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
