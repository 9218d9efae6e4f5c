"""What both connectors take."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from walflow import Need, PeerAway, Traits
from walflow.net import (
    AtUrl,
    ClientTls,
    Reconnect,
    ReconnectKeys,
    Secret,
    TlsToPeer,
    UrlScheme,
    credential_in_the_open,
    credentials_written,
    to_reach,
    to_read,
)

LONGEST_TEXT: Final = 65535  # bytes


class MqttAway(PeerAway):
    """The broker cannot be used now. The line says why."""


class MqttConnector(AtUrl):
    """What mqtt_subscriber and mqtt_publisher have in common."""

    traits: ClassVar[Traits] = Traits(messages=True)

    scheme: ClassVar[UrlScheme] = UrlScheme("mqtt", 1883, "mqtts", 8883)

    url: str = scheme.connects("mqtt://host:port of the broker", examples=["mqtt://127.0.0.1:1883"])
    version: Literal["5", "3.1.1"] = Field(default="5", description="The version of MQTT.")
    username: str | None = Field(default=None, min_length=1, description="Who walflow is to the broker.")
    password: Secret | None = Field(
        default=None, description='Its password, as `{"file": …}`. It is read at each connection.'
    )
    tls: TlsToPeer = False
    keepalive: int = Field(
        default=60_000_000_000,
        ge=1_000_000_000,
        le=65_535_000_000_000,
        description="Nanoseconds without traffic after which the broker is asked whether it is there.",
    )
    reconnect: ReconnectKeys = Reconnect()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.tls and not self.secure:
            raise ValueError("url does not say mqtts:// and tls is there: write mqtts://")
        if isinstance(self.tls, ClientTls) and self.tls.domain is not None:
            raise ValueError("the broker's certificate must have the name in url: leave domain out")
        if self.password is not None and self.username is None:
            raise ValueError("password needs username")
        return self

    @property
    def client_tls(self) -> ClientTls | None:
        if isinstance(self.tls, ClientTls):
            return self.tls
        return ClientTls() if self.secure else None

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.password, "password"), *to_reach(self.address, self.client_tls)]

    def warnings(self) -> list[str]:
        tls = self.client_tls
        key_password = tls.key_password if tls is not None else None
        warnings = credentials_written(key_password=key_password, password=self.password)
        if self.password is not None and not self.secure and not self.address.loopback:
            warnings.append(credential_in_the_open("password", self.address))
        return warnings


def _fits(name: str) -> str:
    if "\0" in name or len(name.encode(errors="replace")) > LONGEST_TEXT:
        raise ValueError(f"a client_id has at most {LONGEST_TEXT:,} bytes, and no zero character")
    return name


# brokers must take 23 letters and digits, and may take any text (MQTT 5, 3.1.3.1); AWS takes 128, as Azure does
ClientId = Annotated[str, AfterValidator(_fits)]


def check_topic(topic: str, *, wildcards: bool) -> str:
    """Raises ValueError for what MQTT has no topic for."""
    if not topic or "\0" in topic or len(topic.encode(errors="replace")) > LONGEST_TEXT:
        raise ValueError(f"a topic has 1 to {LONGEST_TEXT:,} bytes, and no zero character")
    if not wildcards:
        if "+" in topic or "#" in topic:
            raise ValueError(f"{topic!r} has a wildcard: events go to one topic")
        return topic
    levels = topic.split("/")
    for number, level in enumerate(levels):
        if ("#" in level and (level != "#" or number < len(levels) - 1)) or ("+" in level and level != "+"):
            raise ValueError(f"{topic!r}: `+` and `#` stand alone between two `/`, and `#` is the last")
    return topic
