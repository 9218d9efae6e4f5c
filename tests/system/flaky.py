"""A stranger's connector: a sink that fails every other block, so many times.
Named in flow files as tests.system.flaky:Flaky."""

from typing import ClassVar

from pydantic import Field

from walflow import Block, Connector, Guarantee, Inlet, Outlet, Ports


class Flaky(Connector):
    ports: ClassVar[Ports] = Ports(outputs=())

    failures: int = Field(description="How many blocks fail.")

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="an event is acked when this test says so")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        failed = seen = 0

        def judge(block: Block) -> None:
            nonlocal failed, seen
            seen += 1
            if seen % 2 and failed < self.failures:
                failed += 1
                inlet.fail(block, ConnectionError(f"failure {failed}"))
            else:
                inlet.ack(block)

        while True:
            for block in await inlet.take():
                judge(block)
