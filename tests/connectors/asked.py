"""A connector that answers events, with its two halves in memory and real threads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, cast

from walflow import Connector
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

PATIENCE: Final = 100.0


class AskedConnector(NamedTuple):
    inlet: MemoryInlet
    out: MemoryOutlet

    def ask(self, value: bytes, **meta: object) -> None:
        self.inlet.give(self.inlet.block(value + b"\n", meta=meta))

    def answers(self) -> list[object]:
        return [value for block in self.out.sent for value in block.values]

    def metas(self) -> list[object]:
        return [meta for block in self.out.sent for meta in block.event_metas or ()]

    def ack(self) -> None:
        for block in self.out.sent:
            if block.receipt.pending:
                block.receipt.ack()


@asynccontextmanager
async def asking(connector: Connector, *, linked: bool = True) -> AsyncIterator[AskedConnector]:
    scheduler = LoopScheduler("asking")
    virtual = cast(VirtualScheduler, scheduler)
    made = AskedConnector(MemoryInlet(virtual), MemoryOutlet(virtual, linked=linked))
    task = asyncio.ensure_future(connector.run(made.inlet, made.out))
    try:
        yield made
    finally:
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
        await scheduler.close()
        made.ack()
        assert isinstance(ended[0], asyncio.CancelledError), ended


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  # what is waited for is on a thread or a socket
            await asyncio.sleep(0.005)
