"""Time limits for peers. If the loop comes late to the end of a limit (the process was stopped, or the machine was
busy), it has not read what the peer sent meanwhile. Then the limit does not count, and the time begins again."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from walflow.contract import Timer

LATE: Final = 1.0  # seconds
CLOSING: Final = 1.0  # seconds for a peer to take what is written to it, when the connector stops


class Clock(Protocol):
    """A scheduler, or a loop."""

    def time(self) -> float: ...
    def call_later(self, delay: float, call: Callable[[], None], /) -> Timer: ...


class Deadline:
    """Calls a function once, when the time is over, unless it was cancelled."""

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
