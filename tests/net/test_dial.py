import asyncio
import socket
from typing import cast

import pytest

from walflow import world
from walflow.net.address import Address
from walflow.net.connection import Connection
from walflow.net.dial import Dial
from walflow.net.sockets import IDLE_SECONDS, SocketOptions
from walflow.network import SystemNetwork
from walflow.testing import MemoryOutlet, VirtualScheduler


class KeptSockets(SystemNetwork):
    def __init__(self) -> None:
        self.made: list[socket.socket] = []

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        self.made.append(super().socket(family, kind, protocol))
        return self.made[-1]


class Ended(asyncio.Protocol):
    def __init__(self) -> None:
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


@pytest.mark.both_loops
async def test_a_connection_has_its_options() -> None:
    """Without keepalive nothing ever tells that a peer's machine is down. No loop's transport has a `socket.socket`,
    and so the options were set for none."""
    kept = KeptSockets()
    server = await asyncio.get_running_loop().create_server(Ended, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with world.entered(world.MACHINE._replace(network=kept)):
        dial = Dial(Address("127.0.0.1", port), None, SocketOptions(), MemoryOutlet(VirtualScheduler()))
        made = Ended()
        await dial.connect(cast("Connection", made))
    (sock,) = kept.made
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_SECONDS
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    cast("asyncio.Transport", made.transport).abort()
    await made.over.wait()
    server.close()


@pytest.mark.both_loops
async def test_nobody_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address(*free.getsockname())
        dial = Dial(address, None, SocketOptions(), MemoryOutlet(VirtualScheduler()))
        with pytest.raises(ConnectionRefusedError):
            await dial.connect(cast("Connection", Ended()))
