"""`python -m bench.echo PORT`: sends back what it reads, and looks at none of it. Until it is killed."""

import asyncio
import sys
from typing import Final, cast

import uvloop

from bench.processes import keep_freed_memory

MOST: Final = 8 << 20  # bytes that wait to be taken, before it reads no more


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MOST)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()


async def main(port: int) -> None:
    keep_freed_memory()
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
