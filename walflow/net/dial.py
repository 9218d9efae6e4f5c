"""Makes connections to a peer by TCP, with or without TLS."""

import asyncio
import socket
from contextlib import suppress
from typing import cast

from walflow.contract import Outlet, Scheduler
from walflow.net.address import Address
from walflow.net.connection import CONNECTS_WITHIN, Connection
from walflow.net.secure import TlsProtocol
from walflow.net.sockets import SocketOptions
from walflow.net.thread import on_thread
from walflow.net.tls import ClientTls, Contexts
from walflow.world import network


class Dial:
    """The address and the settings of a connection. `tls` None: without TLS. Certificates are read here, and again by
    `reload`."""

    def __init__(self, address: Address, tls: ClientTls | None, options: SocketOptions, out: Outlet) -> None:
        self._address = address
        self._options = options
        self._contexts = Contexts(tls, out) if tls else None
        self._hostname = (tls and tls.domain) or address.host

    async def connect(self, connection: Connection) -> None:
        protocol: asyncio.Protocol = connection
        if self._contexts is not None:
            protocol = layer = TlsProtocol(
                connection,
                self._contexts.current,
                lambda reason: connection.failed(f"TLS: {reason}"),
                handshake_seconds=CONNECTS_WITHIN,
                server_hostname=self._hostname,
            )
            connection.transport = layer.transport  # so that it can be closed in its handshake
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: protocol, *self._address)
        # no loop's transport has a `socket.socket`, but one that takes options; uvloop's has none once it is closed
        sock = cast("socket.socket | None", transport.get_extra_info("socket"))
        if sock is not None:
            with suppress(OSError):  # it is closed
                self._options.connected(sock)

    def reload(self) -> None:
        """Reads the certificates again, for the next connection."""
        if self._contexts is not None:
            self._contexts.renew()


async def connected_socket(scheduler: Scheduler, address: Address) -> socket.socket:
    """For a library that reads and writes by itself: it does not block, and keepalive is on. The host's addresses are
    tried one after the other. Raises OSError, of the last one."""
    found = await on_thread(
        scheduler, lambda: network().addresses(*address, kind=socket.SOCK_STREAM, to_listen=False)
    )
    problem = OSError(f"{address.host} has no address")
    for family, kind, protocol, _, where in found:
        sock = network().socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            SocketOptions().connected(sock)
            await asyncio.get_running_loop().sock_connect(sock, where)
        except OSError as error:
            sock.close()
            problem = error
        except asyncio.CancelledError:
            sock.close()
            raise
        else:
            return sock
    raise problem
