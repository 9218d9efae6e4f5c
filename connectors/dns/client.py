import ipaddress
from typing import ClassVar, Final

from pydantic import Field, field_validator

from walflow import CodecUse, Connector, Families, Family, Guarantee, Lossless, Ports, Risk, Traits
from walflow.net import REQUEST_FAMILIES, Address, parse_address

PORT: Final = 53


class DnsClientKeys(Connector):
    """What `DnsClient` takes."""

    ports: ClassVar[Ports] = Ports()
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, answers=True)
    families: ClassVar[Families] = {
        "lookups_total": Family("counter", "Names that were looked up."),
        **REQUEST_FAMILIES,
    }

    servers: tuple[str, ...] = Field(
        default=(),
        description="host:port of the name servers, by their IP addresses. The default port is 53. Default: the "
        "system's (`/etc/resolv.conf`).",
        examples=[["127.0.0.1:5353"]],
    )
    timeout: int = Field(
        default=5_000_000_000, ge=1_000_000, description="Nanoseconds for a lookup, over all servers and attempts."
    )
    concurrency: int = Field(default=32, ge=1, le=1000, description="How many lookups may wait for their answers.")

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for server in servers:
            try:
                ipaddress.ip_address(_address(server).host)
            except ValueError:
                raise ValueError(f"{server!r}: name the server by its IP address") from None
        return servers

    @property
    def addresses(self) -> list[Address]:
        return [_address(server) for server in self.servers]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = [] if behind_log else [Risk("no-log", "lookups that are not answered when walflow stops are lost")]
        return Guarantee(
            source=Lossless(
                "the event of a lookup is acked once its answer is. If a sink fails the answer, a log upstream "
                "sends the event again, and the name is looked up again"
            ),
            sink=Lossless(
                "a name that does not exist, or has no record of the type, is rejected. A lookup without an answer "
                "in time is made again. It fails when other names have answers and it has none, three times: a log "
                "upstream sends its event again"
            ),
            warnings=tuple(warnings),
        )


def _address(text: str) -> Address:
    """Raises ValueError."""
    if "://" in text:
        raise ValueError(f"{text!r} is not host:port")
    return parse_address(text, scheme="dns", default_port=PORT)
