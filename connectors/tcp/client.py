from collections.abc import Sequence
from typing import ClassVar

from connectors.tcp.server import TCP
from walflow import Families, Guarantee, Inlet, Need, Outlet
from walflow.net import (
    CERTIFICATE_FAMILIES,
    CLIENT_FAMILIES,
    AtUrl,
    ClientConnector,
    ClientTls,
    Dial,
    SocketOptions,
    StreamClient,
    TcpOptions,
    TlsToPeer,
    UrlScheme,
    acks_of,
    credentials_written,
    to_reach,
    unwritten_port,
)


class TcpClient(AtUrl, ClientConnector):
    """A client of one peer. As a sink, it sends events to the peer. As a source, it reads the peer's events from the
    same connection."""

    families: ClassVar[Families] = {**CLIENT_FAMILIES, **CERTIFICATE_FAMILIES}
    scheme: ClassVar[UrlScheme] = TCP

    url: str = TCP.connects("host:port to connect to")
    tls: TlsToPeer = False
    socket_options: TcpOptions = SocketOptions()

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
