from collections.abc import Sequence
from typing import Final

from pydantic import Field, field_validator

from walflow import Guarantee, Inlet, Need, Outlet
from walflow.net import SENT_TO_CLIENTS, Address, TcpListening, parse_address, to_listen, unwritten_port

DEFAULT_PORT: Final = 4242  # tremor's


class TcpServer(TcpListening):
    """A source of what its clients send, and a sink that sends each client its own events back."""

    url: str = Field(description="host:port to listen on. The default port is 4242.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

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
