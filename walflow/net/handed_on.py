"""A connection goes on in the next process: as it is, or, under TLS, decrypted by this one while it lasts."""

import asyncio
import socket
from typing import cast

from walflow.handover import HandedConnection
from walflow.net.secure import TlsTransport
from walflow.world import handover, network


def hand_on(place: str, transport: asyncio.Transport, peer: object, came: bytes) -> None:
    """`place`: kind and address of its server. What had the connection here hears nothing more of it."""
    if isinstance(transport, TlsTransport):
        near, far = socket.socketpair()
        near.setblocking(False)
        relay = TlsRelay(transport)
        handover().relays.add(relay)
        relay.begin(near)
        handover().hand(HandedConnection(place, far, peer, came, secure=True))
        return
    fd = transport.get_extra_info("socket").fileno()
    handover().hand(HandedConnection(place, network().duplicate(fd), peer, came))
    transport.abort()  # the other descriptor keeps it open


class TlsRelay(asyncio.Protocol):
    """The app of a TLS connection, in place of the server's. What the client sends goes to the next process, and what
    that answers to the client."""

    def __init__(self, transport: TlsTransport) -> None:
        self._client: TlsTransport | None = transport
        self._next: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._ended = False  # the client, before the other end was there
        transport.pause_reading()
        transport.hand_to(self)

    def begin(self, near: socket.socket) -> None:
        self._task = asyncio.get_running_loop().create_task(self._connect(near))

    async def _connect(self, near: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: _NextProcess(self), near)

    # the client

    def data_received(self, data: bytes) -> None:
        if self._next is None:
            self._early.append(data)
        else:
            self._next.write(data)

    def eof_received(self) -> bool:
        self.finish()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._client = None
        if self._next is not None:
            self._next.abort()

    def pause_writing(self) -> None:
        if self._next is not None:
            self._next.pause_reading()

    def resume_writing(self) -> None:
        if self._next is not None:
            self._next.resume_reading()

    # the next process

    def connected(self, transport: asyncio.Transport) -> None:
        self._next = transport
        if self._client is None:
            transport.abort()
            return
        transport.writelines(self._early)
        self._early.clear()
        self._client.resume_reading()
        if self._ended:
            transport.write_eof()

    def answered(self, data: bytes) -> None:
        if self._client is not None:
            self._client.write(data)

    def wait(self, *, full: bool) -> None:
        """The next process does not read."""
        if self._client is not None and not self._client.is_closing():
            if full:
                self._client.pause_reading()
            else:
                self._client.resume_reading()

    def over(self) -> None:
        """The next process has closed it."""
        handover().relays.discard(self)
        if self._client is not None:
            self._client.close()

    # walflow.handover.Relay

    def finish(self) -> None:
        if self._next is None:
            self._ended = True
        elif not self._ended and not self._next.is_closing():
            self._ended = True
            self._next.write_eof()

    def abort(self) -> None:
        for transport in (self._client, self._next):
            if transport is not None:
                transport.abort()


class _NextProcess(asyncio.Protocol):
    def __init__(self, relay: TlsRelay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._relay.connected(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._relay.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.over()

    def pause_writing(self) -> None:
        self._relay.wait(full=True)

    def resume_writing(self) -> None:
        self._relay.wait(full=False)
