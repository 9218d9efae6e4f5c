"""Makes connections to a peer by TCP, with or without TLS."""

import asyncio
import socket
from contextlib import suppress
from typing import cast

from walflow.contract import Outlet
from walflow.net.address import Address
from walflow.net.connection import CONNECTS_WITHIN, Connection
from walflow.net.secure import TlsProtocol
from walflow.net.sockets import SocketOptions
from walflow.net.tls import ClientTls, Contexts


class Dial:
    """The address and the settings of a connection. `tls` None: without TLS. Certificates are read here, and again by
    `reload`."""

    def __init__(self, address: Address, tls: ClientTls | None, options: SocketOptions, out: Outlet) -> None:
        self._address = address
        self._options = options
        self._contexts = Contexts(tls, out.log) if tls else None
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
