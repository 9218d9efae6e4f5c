"""Blocking calls of a client, on the scheduler's thread."""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from walflow.contract import Scheduler

T = TypeVar("T")


async def on_thread(scheduler: Scheduler, job: Callable[[], T], unwanted: Callable[[T], object] | None = None) -> T:
    """What it returns or raises. If the caller is cancelled, the job goes on, and the next one waits for it. Then
    `unwanted` gets what it returns: a socket or a file that nobody else would close."""
    answer = _Answer[T](unwanted)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    scheduler.submit(lambda: answer.put(job()), done)
    try:
        await ended
    except asyncio.CancelledError:
        answer.refuse()
        raise
    return answer.take()


class _Answer(Generic[T]):
    """What a job returned, or is going to return, for one who may go away meanwhile, in another thread."""

    def __init__(self, unwanted: Callable[[T], object] | None) -> None:
        self._unwanted = unwanted
        self._lock = Lock()
        self._refused = False
        self._values: list[T] = []

    def put(self, value: T) -> None:
        with self._lock:
            if not self._refused:
                self._values.append(value)
                return
        self._drop(value)

    def refuse(self) -> None:
        with self._lock:
            self._refused = True
        for value in self._values:
            self._drop(value)

    def take(self) -> T:
        return self._values[0]

    def _drop(self, value: T) -> None:
        if self._unwanted is not None:
            self._unwanted(value)
