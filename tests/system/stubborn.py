"""Strangers' connectors that are trouble. Named in flow files as tests.system.stubborn:NAME."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from walflow import Connector, FailStop, Guarantee, Inlet, Outlet, Ports
from walflow.contract import Claim


class _Sink(Connector):
    ports: ClassVar[Ports] = Ports(outputs=())

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="nothing is promised")


class Unready(_Sink):
    """Fails until a file is there. Then it takes, and acks what it took once a second file is there."""

    directory: str = Field(description="Where it looks for them: `up` and `ack`.")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if not self._there("up"):
            raise ConnectionError("the peer\x1b[31m is not there\nREADY=1")
        while True:
            blocks = await inlet.take()
            while not self._there("ack"):  # noqa: ASYNC110  # the test is another process
                await asyncio.sleep(0.01)
            for block in blocks:
                inlet.ack(block)

    def _there(self, name: str) -> bool:
        return Path(self.directory, name).exists()


class Sick(_Sink):
    """Its disk has failed."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        raise FailStop("the disk is broken")


class Bug(_Sink):
    def claims(self) -> Sequence[Claim]:
        raise RuntimeError("a bug")


class Chatty(_Sink):
    """Logs more than anybody reads, and each time something else."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        number = 0
        while True:
            for block in await inlet.take():
                for _ in range(100):
                    number += 1
                    inlet.log.info(f"line {number} \x1b[2J", filler="x" * 1000)
                inlet.ack(block)
