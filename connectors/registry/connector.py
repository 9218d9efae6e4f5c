from collections.abc import Sequence
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from connectors.registry.translating import Translating
from walflow import CodecUse, Connector, Guarantee, Inlet, Need, Outlet, Ports, Risk
from walflow.net import Address, ClientTls, Reconnect, Secret, check_host
from walflow.net.address import check_brackets
from walflow.net.needs import to_reach, to_read


class SchemaRegistry(Connector):
    """Avro whose schemas are in a registry with Confluent's protocol. An event that comes in is sent out again in the other form.
    `decode`: from the registry's wire format (a zero byte, 4 bytes of the schema's id, the value) to the value. `encode`: from the
    value to the wire format. [Kafka](../../howto/kafka.md#avro-with-a-schema-registry) shows both."""

    ports: ClassVar[Ports] = Ports()
    answers: ClassVar[bool] = True
    codec: ClassVar[CodecUse] = CodecUse.FORBIDDEN

    url: str = Field(
        description="http://host:port of the registry, or https:// for TLS. The default port is 80, with TLS 443.",
        examples=["http://127.0.0.1:8081"],
    )
    mode: Literal["decode", "encode"] = Field(
        description="`decode`: events are binary, and values come out. `encode`: events are values, and binary events come out."
    )
    subject: str | None = Field(
        default=None,
        min_length=1,
        description="For `encode`: the subject whose newest schema is used. It is looked up at the first event, and again after a "
        "restart.",
        examples=["events-value"],
    )
    username: str | None = Field(default=None, pattern="^[^:]+$", description="Who walflow is to the registry.")
    password: Secret | None = Field(
        default=None, description='Its password, as `{"file": …}`. It is read when the connector starts.'
    )
    tls: ClientTls = Field(default=ClientTls(), description="For https://: a record with the keys below.")
    timeout: int = Field(
        default=5_000_000_000, ge=1_000_000, description="Nanoseconds to wait for an answer of the registry."
    )
    reconnect: Reconnect = Field(
        default=Reconnect(),
        description="How long the breaker stops the sources when the registry is away, with tremor's keys.",
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            raise ValueError(f"{url!r} is no URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or parts.query:
            raise ValueError(f"{url!r} is not http://host:port")
        if parts.username is not None:
            raise ValueError("url holds a name or a password: use `username` and `password`")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(f"{url!r} holds what no URL can hold: write it with %")
        check_brackets(parts.netloc)
        check_host(parts.hostname)
        return url.rstrip("/")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.subject is not None) is not (self.mode == "encode"):
            raise ValueError("name a subject for encode, and none for decode")
        if (self.username is None) is not (self.password is None):
            raise ValueError("name both of username and password, or none")
        return self

    @property
    def secure(self) -> bool:
        return self.url.startswith("https://")

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        return Address(str(parts.hostname), parts.port or (443 if self.secure else 80))

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.password, "password"), *to_reach(self.address, self.tls if self.secure else None)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings: list[str] = []
        if self.password is not None and self.password.inline:
            warnings.append(
                Risk("credential", "the password stands in the flow file; name a file, env or credential instead")
            )
        if self.password is not None and not self.secure and not self.address.loopback:
            warnings.append(
                Risk(
                    "open-to-network",
                    f"the password goes to {self.address} without TLS, so every machine on the way can read it",
                )
            )
        if not behind_log:
            warnings.append(Risk("no-log", "events that are held when walflow stops are lost"))
        return Guarantee(
            source="an event is acked once what was made of it is",
            sink="an event whose schema the registry does not know, or that is not of its schema, is rejected. While the registry "
            "is away, events whose schema is not known yet are held",
            warnings=tuple(warnings),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await Translating(self, inlet, out).run()
