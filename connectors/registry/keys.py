from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from walflow import CodecUse, Families, Guarantee, Lossless, Need, Ports, Risk, Traits
from walflow.net import (
    CERTIFICATE_FAMILIES,
    HTTP,
    REQUEST_FAMILIES,
    Address,
    AtUrl,
    ClientTls,
    Reconnect,
    ReconnectKeys,
    Secret,
    UrlScheme,
    check_http_url,
    credential_in_the_open,
    credentials_written,
    to_reach,
    to_read,
)


class SchemaRegistryKeys(AtUrl):
    """What `SchemaRegistry` takes."""

    ports: ClassVar[Ports] = Ports()
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, answers=True)
    families: ClassVar[Families] = {**REQUEST_FAMILIES, **CERTIFICATE_FAMILIES}
    scheme: ClassVar[UrlScheme] = HTTP

    url: str = HTTP.connects("http://host:port of the registry", examples=["http://127.0.0.1:8081"])
    mode: Literal["decode", "encode"] = Field(
        description=(
            "`decode`: events are binary, and values come out. `encode`: events are values, "
            "and binary events come out."
        )
    )
    subject: str | None = Field(
        default=None,
        min_length=1,
        description="For `encode`: the subject whose newest schema is used. It is looked up at the first event, "
        "and again after a restart.",
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
    reconnect: ReconnectKeys = Reconnect()

    @classmethod
    def checked_url(cls, url: str) -> str:
        check_http_url(url, "http://host:port", "use `username` and `password`", query=False)
        return url.rstrip("/")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.subject is not None) is not (self.mode == "encode"):
            raise ValueError("name a subject for encode, and none for decode")
        if (self.username is None) is not (self.password is None):
            raise ValueError("name both of username and password, or none")
        return self

    @property
    def address(self) -> Address:
        return self.scheme.address_of(self.url)

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.password, "password"), *to_reach(self.address, self.tls if self.secure else None)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = credentials_written(password=self.password)
        if self.password is not None and not self.secure and not self.address.loopback:
            warnings.append(credential_in_the_open("password", self.address))
        if not behind_log:
            warnings.append(Risk("no-log", "events that are held when walflow stops are lost"))
        return Guarantee(
            source=Lossless("an event is acked once what was made of it is"),
            sink=Lossless(
                "an event whose schema the registry does not know, or that is not of its schema, is rejected. While "
                "the registry is away, events whose schema is not known yet are held"
            ),
            warnings=tuple(warnings),
        )
