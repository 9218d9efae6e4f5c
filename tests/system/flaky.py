"""A stranger's connector: a sink that fails its first blocks. Named in flow files as tests.system.flaky:Flaky."""

from typing import ClassVar

from pydantic import Field

from walflow import Block, Connector, Guarantee, Inlet, Outlet, Ports


class Flaky(Connector):
    ports: ClassVar[Ports] = Ports(outputs=())

    failures: int = Field(description="How many blocks fail before one is acked.")

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="an event is acked when this test says so")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        failed = 0

        def judge(block: Block) -> None:
            nonlocal failed
            if failed < self.failures:
                failed += 1
                inlet.fail(block, ConnectionError(f"failure {failed}"))
            else:
                inlet.ack(block)

        while True:
            for block in await inlet.take():
                judge(block)
