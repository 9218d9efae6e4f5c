"""A connector that answers events, with its two halves in memory and real threads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from tests.connectors.started import started
from walflow import Connector
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


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
    try:
        async with started(connector.run(made.inlet, made.out), scheduler):
            yield made
    finally:
        made.ack()
