"""A sink that drops every event, and a source that sends none."""

import asyncio
from typing import ClassVar

from walflow import CodecUse, Connector, Guarantee, Inlet, Outlet, Risk, Traits


class Null(Connector):
    """As a sink, it acks and drops every event. As a source, it sends nothing."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, decodes=False, takes_bytes=False)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="sends nothing",
            sink="an event is acked and dropped",
            warnings=(Risk("dropped", "what reaches it is dropped, and the log upstream deletes it too"),)
            if behind_log
            else (),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        inlet.serve(inlet.ack)
        await asyncio.get_running_loop().create_future()  # until it is cancelled
