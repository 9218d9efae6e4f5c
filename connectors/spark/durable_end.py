"""The durable end of the log, and the callers that wait for more."""

import asyncio

from walflow.wal import Log


class DurableEnd:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[asyncio.Future[None], int] = {}

    @property
    def next(self) -> int:
        """The position after the last one that is durable."""
        return self._log.durable + 1

    def moved(self) -> None:
        for waiting, position in self._waiting.items():
            if self.next > position and not waiting.done():
                waiting.set_result(None)

    async def wait(self, position: int, seconds: float) -> int:
        """Waits until `next` is larger than `position`, at most this many seconds. Returns `next`."""
        if self.next <= position and seconds > 0:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[waiting] = position
            try:
                await asyncio.wait([waiting], timeout=seconds)
            finally:
                del self._waiting[waiting]
        return self.next
