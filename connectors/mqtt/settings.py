"""What both connectors take."""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from walflow import CodecUse, Connector, Need, WalflowError
from walflow.net import Address, ClientTls, Reconnect, Secret, parse_address
from walflow.net.needs import to_reach, to_read

LONGEST_TOPIC: Final = 65535  # bytes


class MqttAway(WalflowError):
    """The broker cannot be used now. The line says why."""


class MqttConnector(Connector):
    """What mqtt_subscriber and mqtt_publisher have in common."""

    codec: ClassVar[CodecUse] = CodecUse.REQUIRED
    messages: ClassVar[bool] = True

    url: str = Field(
        description="mqtt://host:port of the broker, or mqtts:// for TLS. The default port is 1883, with TLS 8883.",
        examples=["mqtt://127.0.0.1:1883"],
    )
    version: Literal["5", "3.1.1"] = Field(default="5", description="The version of MQTT.")
    username: str | None = Field(default=None, min_length=1, description="Who walflow is to the broker.")
    password: Secret | None = Field(
        default=None, description='Its password, as `{"file": …}`. It is read at each connection.'
    )
    tls: bool | ClientTls = Field(
        default=False,
        description="For mqtts://: `true` for the system's certificate authorities, or a record with the keys below.",
    )
    keepalive: int = Field(
        default=60_000_000_000,
        ge=1_000_000_000,
        le=65_535_000_000_000,
        description="Nanoseconds without traffic after which the broker is asked whether it is there.",
    )
    reconnect: Reconnect = Field(default=Reconnect(), description="When to connect again, with tremor's keys.")

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        _address(url)
        return url

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
    def secure(self) -> bool:
        return self.url.startswith("mqtts://")

    @property
    def address(self) -> Address:
        return _address(self.url)

    @property
    def client_tls(self) -> ClientTls | None:
        if isinstance(self.tls, ClientTls):
            return self.tls
        return ClientTls() if self.secure else None

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.password, "password"), *to_reach(self.address, self.client_tls)]

    def warnings(self) -> list[str]:
        warnings: list[str] = []
        tls = self.client_tls
        if tls is not None and tls.key_password is not None and tls.key_password.inline:
            warnings.append("the key_password stands in the flow file; name a file, env or credential instead")
        if self.password is not None and self.password.inline:
            warnings.append("the password stands in the flow file; name a file, env or credential instead")
        if self.password is not None and not self.secure and not self.address.loopback:
            warnings.append(
                f"the password goes to {self.address} without TLS, so every machine on the way can read it"
            )
        return warnings


def check_topic(topic: str, *, wildcards: bool) -> str:
    """Raises ValueError for what MQTT has no topic for."""
    if not topic or "\0" in topic or len(topic.encode(errors="replace")) > LONGEST_TOPIC:
        raise ValueError(f"a topic has 1 to {LONGEST_TOPIC:,} bytes, and no zero character")
    if not wildcards:
        if "+" in topic or "#" in topic:
            raise ValueError(f"{topic!r} has a wildcard: events go to one topic")
        return topic
    levels = topic.split("/")
    for number, level in enumerate(levels):
        if ("#" in level and (level != "#" or number < len(levels) - 1)) or ("+" in level and level != "+"):
            raise ValueError(f"{topic!r}: `+` and `#` stand alone between two `/`, and `#` is the last")
    return topic


def _address(url: str) -> Address:
    """Raises ValueError."""
    if url.startswith("mqtts://"):
        return parse_address(url, scheme="mqtts", default_port=8883)
    return parse_address(url, scheme="mqtt", default_port=1883)
