"""How long a peer has for something. A loop that comes late to the end of it (the process was stopped, the machine was
busy) has not read what the peer sent meanwhile, and judges no peer: the time begins anew."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from walflow.contract import Timer

LATE: Final = 1.0  # seconds


class Clock(Protocol):
    """A scheduler, or a loop."""

    def time(self) -> float: ...
    def call_later(self, delay: float, call: Callable[[], None], /) -> Timer: ...


class Deadline:
    """Calls once, when the time is over and it was not cancelled."""

    def __init__(self, clock: Clock, seconds: float, call: Callable[[], None]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._call = call
        self._begin()

    def cancel(self) -> None:
        self._timer.cancel()

    def _begin(self) -> None:
        self._due = self._clock.time() + self._seconds
        self._timer = self._clock.call_later(self._seconds, self._over)

    def _over(self) -> None:
        if self._clock.time() - self._due > LATE:
            self._begin()
        else:
            self._call()


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None]:
    """Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as block:
        deadline = Deadline(loop, seconds, lambda: block.reschedule(loop.time()))
        try:
            yield
        finally:
            deadline.cancel()
