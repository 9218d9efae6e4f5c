"""What servers that listen on host:port share, whatever they speak: TLS, who may come, what an operator is warned of."""

from collections.abc import Mapping
from typing import cast

from pydantic import Field

from walflow.contract import Inlet, Outlet
from walflow.net.address import Address
from walflow.net.peer import Peer
from walflow.net.server import MakePeer, ServerConnector, StreamServer
from walflow.net.sockets import SocketOptions, listen_tcp
from walflow.net.tls import ServerTls


class TcpListening(ServerConnector):
    tls: ServerTls | None = Field(default=None, description="Certificates. Default: everything is sent in the clear.")
    socket_options: SocketOptions = Field(
        default=SocketOptions(), description="Options of the socket, by tremor's names."
    )
    handshake_timeout: int = Field(
        default=10_000_000_000,
        gt=0,
        description="Nanoseconds a client has for its handshake, of TLS or of what is spoken.",
    )
    max_connections_per_address: int | None = Field(
        default=None, ge=1, description="Clients at a time from one address. Default: only max_connections counts."
    )
    insecure: str | None = Field(default=None, description="Why this may listen beyond loopback without TLS.")

    @property
    def address(self) -> Address:
        raise NotImplementedError

    def exposed(self) -> list[str]:
        """What lies open, a line each."""
        lines: list[str] = []
        if self.tls is None and not self.address.loopback and self.insecure is None:
            lines.append(f'{self.address} is open to the network without TLS; say why in `insecure = "…"`')
        if self.tls is not None and self.tls.key_password is not None and self.tls.key_password.inline:
            lines.append("the key_password stands in the flow file; name a file, env or credential instead")
        return lines

    async def listen(self, kind: str, inlet: Inlet, out: Outlet, peer: MakePeer = Peer) -> None:
        """Until it is cancelled. `kind`: under which its metadata has who sent an event."""

        def meta(peer: object) -> Mapping[str, object]:
            host, port = _host_and_port(peer)
            return {kind: {"tls": self.tls is not None, "peer": {"host": host, "port": port}}}

        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        server = StreamServer(
            self,
            inlet,
            out,
            meta,
            prepare=self.socket_options.connected,
            origin=lambda peer: _host_and_port(peer)[0],
            per_origin=self.max_connections_per_address,
            tls=self.tls,
            handshake_timeout=self.handshake_timeout,
            peer=peer,
        )
        sockets = listen_tcp(self.address, self.backlog, self.socket_options)
        listening = Address(self.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(listening), tls=self.tls is not None)
        await server.serve(sockets)


def _host_and_port(peer: object) -> tuple[str, int]:
    host, port, *_ = cast(tuple[str, int], peer)
    return host, port
