"""Makes connections to a peer by TCP, with or without TLS."""

import asyncio
import socket
from typing import Final

import aiohappyeyeballs

from walflow.contract import Outlet
from walflow.net.address import Address
from walflow.net.connection import CONNECTS_WITHIN, Connection
from walflow.net.secure import TlsProtocol
from walflow.net.sockets import SocketOptions, socket_of
from walflow.net.tls import ClientTls, Contexts

NEXT_ADDRESS: Final = 0.25  # seconds until the host's next address is tried beside (RFC 8305)


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
        found = await loop.getaddrinfo(*self._address, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(  # pyright: ignore[reportUnknownMemberType]
            found, happy_eyeballs_delay=NEXT_ADDRESS, socket_factory=self._socket
        )
        try:
            await loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            sock.close()
            raise

    def _socket(self, found: tuple[int, int, int, str, object]) -> socket.socket:
        """The options are set here: what a loop's transport gives is no `socket.socket`."""
        sock = socket_of(found)
        self._options.connected(sock)
        return sock

    def reload(self) -> None:
        """Reads the certificates again, for the next connection."""
        if self._contexts is not None:
            self._contexts.renew()
