import asyncio
import socket
from typing import cast

import pytest

from walflow.net.address import Address
from walflow.net.connection import Connection
from walflow.net.dial import Dial
from walflow.net.sockets import IDLE_SECONDS, SocketOptions
from walflow.testing import MemoryOutlet, VirtualScheduler


class Ended(asyncio.Protocol):
    def __init__(self) -> None:
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


@pytest.mark.both_loops
async def test_a_connection_has_its_options() -> None:
    """Without keepalive nothing ever tells that a peer's machine is down. No loop's transport has a `socket.socket`,
    and so the options were set for none."""
    server = await asyncio.get_running_loop().create_server(Ended, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    made = Ended()
    dial = Dial(address, None, SocketOptions(), MemoryOutlet(VirtualScheduler()))
    await dial.connect(cast("Connection", made))
    sock = made.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_SECONDS
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    made.transport.abort()
    await made.over.wait()
    server.close()
