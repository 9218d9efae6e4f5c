"""Shared by all servers that listen on host:port: TLS, limits for clients, and warnings for the operator."""

from collections.abc import Mapping
from typing import ClassVar, cast

from pydantic import Field

from walflow.contract import Connector, Inlet, Outlet, Risk
from walflow.families import Families
from walflow.net.address import Address
from walflow.net.credentials import credentials_written
from walflow.net.families import CERTIFICATE_FAMILIES, SERVER_FAMILIES
from walflow.net.keys import TcpOptions
from walflow.net.peer import Peer
from walflow.net.server import MakePeer, ServerConnector, StreamServer
from walflow.net.sockets import SocketOptions, listen_tcp
from walflow.net.tls import ServerTls


class Exposed(Connector):
    """Keys of every server that listens on host:port, with any protocol."""

    tls: ServerTls | None = Field(default=None, description="Certificates for TLS. Default: no TLS.")
    socket_options: TcpOptions = SocketOptions()
    handshake_timeout: int = Field(
        default=10_000_000_000,
        gt=0,
        description="Nanoseconds that a client may take for its handshake, of TLS or of the protocol above it.",
    )
    max_connections_per_address: int | None = Field(
        default=None,
        ge=1,
        description="The most clients from one address at a time. Default: only max_connections limits them.",
    )
    insecure: str | None = Field(
        default=None,
        description="The reason why listening beyond loopback without TLS is "
        "safe here. With a reason, `check` and `run` do not warn.",
    )

    @property
    def address(self) -> Address:
        raise NotImplementedError

    def exposed(self) -> list[str]:
        """One line for each thing that is open to the network or to readers of the flow file."""
        lines: list[str] = []
        if self.tls is None and not self.address.loopback and self.insecure is None:
            lines.append(
                Risk(
                    "open-to-network",
                    f'{self.address} is open to the network without TLS; say why in `insecure = "…"`',
                )
            )
        return [*lines, *credentials_written(key_password=self.tls.key_password if self.tls is not None else None)]


class TcpListening(Exposed, ServerConnector):
    families: ClassVar[Families] = {**SERVER_FAMILIES, **CERTIFICATE_FAMILIES}

    async def listen(self, kind: str, inlet: Inlet, out: Outlet, peer: MakePeer = Peer) -> None:
        """Serves until it is cancelled. `kind`: the metadata key that holds the sender's address."""

        def meta(peer: object) -> Mapping[str, object]:
            host, port = host_and_port(peer)
            return {kind: {"tls": self.tls is not None, "peer": {"host": host, "port": port}}}

        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        server = StreamServer(
            self,
            inlet,
            out,
            meta,
            prepare=self.socket_options.connected,
            origin=lambda peer: host_and_port(peer)[0],
            per_origin=self.max_connections_per_address,
            tls=self.tls,
            handshake_timeout=self.handshake_timeout,
            peer=peer,
            place=f"{kind} {self.address}" if self.address.port else "",
        )
        sockets = listen_tcp(self.address, self.backlog, self.socket_options)
        listening = Address(self.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(listening), tls=self.tls is not None)
        await server.serve(sockets)


def host_and_port(peer: object) -> tuple[str, int]:
    host, port, *_ = cast(tuple[str, int], peer)
    return host, port
