from collections.abc import Sequence

from pydantic import Field, field_validator

from connectors.tcp.server import DEFAULT_PORT
from walflow import Guarantee, Inlet, Need, Outlet
from walflow.net import (
    Address,
    ClientConnector,
    ClientTls,
    Dial,
    SocketOptions,
    StreamClient,
    TcpOptions,
    TlsToPeer,
    acks_of,
    credentials_written,
    parse_address,
    to_reach,
    unwritten_port,
)


class TcpClient(ClientConnector):
    """A client of one peer. As a sink, it sends events to the peer. As a source, it reads the peer's events from the
    same connection."""

    url: str = Field(description="host:port to connect to. The default port is 4242.")
    tls: TlsToPeer = False
    socket_options: TcpOptions = SocketOptions()

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

    def needs(self) -> Sequence[Need]:
        return to_reach(self.address, self._tls())

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        promised = super().guarantee(behind_log=behind_log)
        promised = promised._replace(notes=(*promised.notes, *unwritten_port(self.url, self.address)))
        tls = self._tls()
        inline = credentials_written(key_password=tls.key_password if tls is not None else None)
        return promised._replace(warnings=(*promised.warnings, *inline))

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        tls = self._tls()
        dial = Dial(self.address, tls, self.socket_options, out)
        inlet.on_reopen(dial.reload)
        meta = {"tcp_client": {"tls": tls is not None, "peer": self.address._asdict()}}
        acks = acks_of(self, inlet, out.scheduler.awake)
        await StreamClient(
            self,
            inlet,
            out,
            peer=str(self.address),
            meta=meta,
            connect=dial.connect,
            acks=acks,
            reads_answers=self.ack == "echo",
        ).run()

    def _tls(self) -> ClientTls | None:
        if isinstance(self.tls, bool):
            return ClientTls() if self.tls else None
        return self.tls
