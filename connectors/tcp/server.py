from collections.abc import Sequence
from typing import ClassVar, Final

from walflow import Guarantee, Inlet, Need, Outlet
from walflow.net import SENT_TO_CLIENTS, AtUrl, TcpListening, UrlScheme, to_listen, unwritten_port

TCP: Final = UrlScheme("tcp", 4242)  # tremor's port


class TcpServer(AtUrl, TcpListening):
    """A source of what its clients send, and a sink that sends each client its own events back."""

    scheme: ClassVar[UrlScheme] = TCP

    url: str = TCP.listens()

    def needs(self) -> Sequence[Need]:
        return to_listen(self.address, self.socket_options, self.tls)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="what a client has sent is safe once a log has acked it. TCP itself does not tell the client; an "
            "echo sent from below the log does",
            sink=SENT_TO_CLIENTS,
            warnings=tuple(self.exposed()),
            notes=unwritten_port(self.url, self.address),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await self.listen("tcp_server", inlet, out)
