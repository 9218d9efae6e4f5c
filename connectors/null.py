"""A sink that swallows, a source that never speaks."""

import asyncio
from typing import ClassVar

from walflow import CodecUse, Connector, Guarantee, Inlet, Outlet


class Null(Connector):
    """Drops what it is given and acks it; sends nothing."""

    codec: ClassVar[CodecUse] = CodecUse.OPTIONAL

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="sends nothing, ever",
            sink="an event is acked and dropped",
            warnings=("what reaches it is gone, from the log before it too",) if behind_log else (),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        inlet.serve(inlet.ack)
        await asyncio.get_running_loop().create_future()  # until it is cancelled
