"""A stranger's connector with a bug, named in flow files as tests.system.buggy:Buggy: a sink that writes events to a
file, and raises where nobody expects it at the first event with `boom` in it."""

import asyncio
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from walflow import Block, Connector, Guarantee, Inlet, Outlet, Ports


class Buggy(Connector):
    ports: ClassVar[Ports] = Ports(outputs=())

    path: str = Field(description="The file.")
    raises: Literal["accept", "later", "reopen"] = Field(description="Where.")

    _left: int = PrivateAttr(default=1)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="an event is acked when it is in the file")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        def raise_once() -> None:
            if self._left:
                self._left -= 1
                raise ValueError("a bug")

        def accept(block: Block) -> None:
            boom = b"boom" in block.frames.data
            if boom and self.raises == "accept":
                raise_once()
            if boom and self.raises == "later" and self._left:
                inlet.scheduler.call_soon(raise_once)
                return
            with Path(self.path).open("ab") as file:
                file.write(block.frames.data)
            inlet.ack(block)

        if self.raises == "reopen":
            inlet.on_reopen(raise_once)
        inlet.serve(accept)
        await asyncio.get_running_loop().create_future()
