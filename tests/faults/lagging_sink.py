"""A sink that leaves the newest event unacked, so that a log never drops the file it writes to."""

import asyncio
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from walflow import Connector, Guarantee, Inlet, Outlet, Ports
from walflow.event import Block


class Lagging(Connector):
    """Acks an event when the next one has come; the last one once a file is there."""

    ports: ClassVar[Ports] = Ports(outputs=())
    directory: str = Field(description="Where it looks for it: `ack`.")

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="nothing is promised")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        held: list[Block] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(self._let_go(inlet, held))
            while True:
                for block in await inlet.take():
                    held.append(block)
                    if len(held) > 1:
                        inlet.ack(held.pop(0))

    async def _let_go(self, inlet: Inlet, held: list[Block]) -> None:
        while True:
            await asyncio.sleep(0.01)
            if held and self._there("ack"):
                inlet.ack(held.pop())

    def _there(self, name: str) -> bool:
        return Path(self.directory, name).exists()
