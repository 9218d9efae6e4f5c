"""A request's events on their way, and what became of them."""

import asyncio
import time
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence

from walflow import Block, Frames, Outlet, Receipt, StreamId


class NotTaken(Exception):
    """The flow takes no events now; none of this request was taken."""


class RestNotSent(Exception):
    """The rest of a request, whose sender was told that it is not safe."""


class Departures:
    """Sends blocks, and waits where the window is full."""

    def __init__(self, out: Outlet) -> None:
        self._out = out
        self._waiting: list[Future[None]] = []
        out.on_ready(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def send(
        self,
        stream: StreamId,
        frames: Sequence[Frames],
        meta: Mapping[str, object],
        settled: Callable[[Receipt], None],
    ) -> None:
        """All of them are one request. `settled` is called once, when the last of them is. Raises NotTaken where none was
        sent: then it is called before."""
        sizes = [some.count for some in frames]
        parts = Receipt(settled, sum(sizes)).split(sizes)
        now = time.time_ns()
        sent = 0
        try:
            for some, receipt in zip(frames, parts, strict=True):
                block = Block(stream, some, self._out.codec, receipt, ingest_ns=now, meta=meta)
                while not self._out.send(block):
                    if not sent:
                        raise NotTaken
                    await self._ready()
                sent += 1
        finally:
            for receipt in parts[sent:]:
                receipt.fail(RestNotSent("the flow took no more events of the request"))

    async def _ready(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter
