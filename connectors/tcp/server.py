import socket
from collections.abc import Mapping
from typing import Final, cast

from pydantic import Field, field_validator

from walflow.contract import Guarantee, Inlet, Outlet
from walflow.net import Address, ServerTls, SocketOptions, parse_address
from walflow.net.server import SINK, ServerConnector, StreamServer
from walflow.net.sockets import listen_tcp

DEFAULT_PORT: Final = 4242  # tremor's


class TcpServer(ServerConnector):
    """A source of what its clients send, and a sink that answers each client with its own events."""

    url: str = Field(description="host:port to listen on; port 4242 if none is named.")
    tls: ServerTls | None = Field(None, description="Certificates. Default: everything is sent in the clear.")
    socket_options: SocketOptions = Field(SocketOptions(), description="Options of the socket, by tremor's names.")
    handshake_timeout: int = Field(
        10_000_000_000, gt=0, description="Nanoseconds a client has for its TLS handshake."
    )
    max_connections_per_address: int | None = Field(
        None, ge=1, description="Clients at a time from one address. Default: only max_connections counts."
    )
    insecure: str | None = Field(None, description="Why this may listen beyond loopback without TLS.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings: list[str] = []
        if self.tls is None and not self.address.loopback and self.insecure is None:
            warnings.append(f'{self.address} is open to the network without TLS; say why in `insecure = "…"`')
        if self.tls is not None and self.tls.key_password is not None and self.tls.key_password.inline:
            warnings.append("the key_password stands in the flow file; name a file, env or credential instead")
        return Guarantee(
            source="what a client has sent is safe once a log has acked it; TCP itself tells the client nothing, "
            "an echo from behind the log does",
            sink=SINK,
            warnings=tuple(warnings),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        server = StreamServer(
            self,
            inlet,
            out,
            self._meta,
            prepare=self.socket_options.connected,
            origin=_host,
            per_origin=self.max_connections_per_address,
            tls=self.tls,
            handshake_timeout=self.handshake_timeout,
        )
        sockets = listen_tcp(self.address, self.backlog, self.socket_options)
        listening = Address(self.address.host, _port(sockets[0]))
        out.log.info("listening", address=str(listening), tls=self.tls is not None)
        await server.serve(sockets)

    def _meta(self, peer: object) -> Mapping[str, object]:
        host, port = _host_and_port(peer)
        return {"tcp_server": {"tls": self.tls is not None, "peer": {"host": host, "port": port}}}


def _host_and_port(peer: object) -> tuple[str, int]:
    host, port, *_ = cast(tuple[str, int], peer)
    return host, port


def _host(peer: object) -> str:
    return _host_and_port(peer)[0]


def _port(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])
