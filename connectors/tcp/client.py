import asyncio
import socket

from pydantic import Field, field_validator

from connectors.tcp.server import DEFAULT_PORT
from walflow.contract import Guarantee, Inlet, Outlet
from walflow.errors import WalflowError
from walflow.net import Address, ClientTls, Contexts, SocketOptions, parse_address
from walflow.net.client import CONNECTS_WITHIN, ClientConnector, Connection, StreamClient, acks_of
from walflow.net.secure import TlsProtocol


class TcpClient(ClientConnector):
    """A sink that writes to a peer, and a source of what the peer writes: both halves of one connection."""

    url: str = Field(description="host:port to connect to; port 4242 if none is named.")
    tls: bool | ClientTls = Field(
        default=False, description="true, or whom to trust and who we are. Default: everything is sent in the clear."
    )
    socket_options: SocketOptions = Field(SocketOptions(), description="Options of the socket, by tremor's names.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        promised = super().guarantee(behind_log=behind_log)
        tls = self._tls()
        if tls is not None and tls.key_password is not None and tls.key_password.inline:
            inline = "the key_password stands in the flow file; name a file, env or credential instead"
            return promised._replace(warnings=(*promised.warnings, inline))
        return promised

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        tls = self._tls()
        contexts = Contexts(tls.context) if tls else None

        def reload() -> None:
            _reload(contexts, out)

        async def connect(connection: Connection) -> None:
            await self._connect(connection, contexts)

        inlet.on_reopen(reload)
        meta = {"tcp_client": {"tls": tls is not None, "peer": self.address._asdict()}}
        acks = acks_of(self, inlet, out.scheduler.time)
        await StreamClient(
            self,
            inlet,
            out,
            peer=str(self.address),
            meta=meta,
            connect=connect,
            acks=acks,
            reads_answers=self.ack == "echo",
        ).run()

    def _tls(self) -> ClientTls | None:
        if isinstance(self.tls, bool):
            return ClientTls() if self.tls else None
        return self.tls

    async def _connect(self, connection: Connection, contexts: Contexts | None) -> None:
        loop = asyncio.get_running_loop()
        protocol: asyncio.Protocol = connection
        if contexts is not None:
            tls = self._tls()
            protocol = layer = TlsProtocol(
                connection,
                contexts.current,
                lambda reason: connection.failed(f"TLS: {reason}"),
                handshake_seconds=CONNECTS_WITHIN,
                server_hostname=(tls and tls.domain) or self.address.host,
            )
            connection.transport = layer.transport  # so that it can be closed in its handshake
        transport, _ = await loop.create_connection(lambda: protocol, *self.address)
        sock = transport.get_extra_info("socket")
        if isinstance(sock, socket.socket):
            self.socket_options.connected(sock)


def _reload(contexts: Contexts | None, out: Outlet) -> None:
    if contexts is None:
        return
    try:
        contexts.reload()
    except WalflowError as error:
        out.log.error("certificates not reloaded", error=str(error))
    else:
        out.log.info("certificates reloaded")
