"""What both connectors take, as librdkafka's configuration."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal, Self

from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from connectors.kafka.options import KNOWN
from walflow import Connector, Need, Risk, Traits, WalflowError, did_you_mean
from walflow.files import readable_file
from walflow.net import Address, Secret, credentials_written, parse_address, to_reach_one, to_read

Option = str | int | float | bool

PORT: Final = 9092
QUIET: Final = {"log_level": 0}  # librdkafka writes to stderr; what matters of it comes by `error_cb` as well
NO_SUCH: Final = "No such configuration property"
OURS: Final = {
    "acks": "it is `all`: an ack means that no broker alone has the message",
    "request.required.acks": "it is `all`: an ack means that no broker alone has the message",
    "auto.commit.interval.ms": "name a `commit_interval`",
    "bootstrap.servers": "name them in `brokers`",
    "metadata.broker.list": "name them in `brokers`",
    "delivery.report.only.error": "each message needs its report",
    "enable.auto.commit": "offsets are committed once their events are acked",
    "enable.auto.offset.store": "offsets are committed once their events are acked",
    "enable.idempotence": "it is `true`: a message that is sent again is not there twice",
    "enable.partition.eof": "an end of a partition is no event",
    "group.id": "name it in `group_id`",
    "log_level": "what matters of librdkafka's log stands in walflow's",
    "plugin.library.paths": "a flow file loads no libraries",
    "sasl.mechanism": "name it in `sasl`",
    "sasl.mechanisms": "name it in `sasl`",
    "sasl.password": "name a file with it in `sasl`",
    "sasl.username": "name it in `sasl`",
    "security.protocol": "`tls` and `sasl` say so",
    "ssl.ca.location": "name it in `tls`",
    "ssl.certificate.location": "name it in `tls`",
    "ssl.key.location": "name it in `tls`",
    "ssl.key.password": "name a file with it in `tls`",
    "transactional.id": "the sink uses no transactions",
}


_COUNTED: Final = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)$")
"""It differs each time, so the same trouble would be another line of the log."""


class KafkaAway(WalflowError):
    """The brokers cannot be used now. The line says why."""


class KafkaTls(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    cafile: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file with certificate authorities that may have signed the brokers' certificates. Default: "
        "the system's.",
    )
    cert: str | None = Field(
        default=None, min_length=1, description="PEM file with walflow's own certificate, if the brokers require one."
    )
    key: str | None = Field(
        default=None, min_length=1, description="PEM file with its private key. Default: the key is in `cert`."
    )
    key_password: Secret | None = Field(default=None, description="The password of an encrypted private key.")

    @model_validator(mode="after")
    def _key_has_a_certificate(self) -> Self:
        if self.key is not None and self.cert is None:
            raise ValueError("key needs cert: name the file of the certificate too")
        return self

    def files(self) -> list[str]:
        return [file for file in (self.cafile, self.cert, self.key) if file is not None]

    def options(self) -> dict[str, Option]:
        """Raises NoSecret."""
        named: dict[str, Option | None] = {
            "ssl.ca.location": self.cafile,
            "ssl.certificate.location": self.cert,
            "ssl.key.location": self.key or self.cert,
            "ssl.key.password": self.key_password.read().get_secret_value()
            if self.key_password is not None
            else None,
        }
        return {name: value for name, value in named.items() if value is not None}


class KafkaSasl(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="How the brokers check the password."
    )
    username: str = Field(min_length=1, description="Who walflow is to the brokers.")
    password: Secret = Field(description='Its password, as `{"file": …}`. It is read when the connector starts.')

    def options(self) -> dict[str, Option]:
        """Raises NoSecret."""
        return {
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password.read().get_secret_value(),
        }


class KafkaConnector(Connector):
    """What kafka_consumer and kafka_producer have in common."""

    traits: ClassVar[Traits] = Traits(messages=True)

    brokers: tuple[str, ...] = Field(
        min_length=1,
        description="host:port of some of the brokers; they name the others. The default port is 9092.",
        examples=[["127.0.0.1:9092"]],
    )
    tls: bool | KafkaTls = Field(
        default=False,
        description="`true` for TLS with the system's certificate authorities, or a record with the keys below.",
    )
    sasl: KafkaSasl | None = Field(default=None, description="User and password for the brokers.")

    @field_validator("brokers")
    @classmethod
    def _are_addresses(cls, brokers: tuple[str, ...]) -> tuple[str, ...]:
        for broker in brokers:
            _address(broker)
        return brokers

    @property
    def addresses(self) -> list[Address]:
        return [_address(broker) for broker in self.brokers]

    def needs(self) -> Sequence[Need]:
        """One broker is enough, which names the others."""
        files = self.tls.files() if isinstance(self.tls, KafkaTls) else []
        password = to_read(self.sasl.password, "password") if self.sasl is not None else []
        return [*map(readable_file, files), *password, to_reach_one(self.addresses)]

    def warnings(self) -> list[str]:
        warnings = credentials_written(
            key_password=self.tls.key_password if isinstance(self.tls, KafkaTls) else None,
            password=self.sasl.password if self.sasl is not None else None,
        )
        if self.sasl is not None and not self.tls and not all(address.loopback for address in self.addresses):
            seen = (
                "the brokers are asked to check the password without TLS, so every machine on the way sees the "
                "events, and with PLAIN the password"
            )
            warnings.append(Risk("open-to-network", seen))
        return warnings

    def client_options(self) -> dict[str, Option]:
        """Raises NoSecret."""
        options: dict[str, Option] = {**QUIET, "bootstrap.servers": ",".join(map(str, self.addresses))}
        if isinstance(self.tls, KafkaTls):
            options |= self.tls.options()
        if self.sasl is not None:
            options |= self.sasl.options()
        secured = ("SASL_" if self.sasl is not None else "") + ("SSL" if self.tls else "PLAINTEXT")
        return {**options, "security.protocol": secured, "client.id": "walflow"}


def check_options(options: Mapping[str, Option], extra: Mapping[str, Option] = {}) -> Mapping[str, Option]:
    """Those of a flow file. Raises ValueError for one that librdkafka does not know or take."""
    for name in options:
        if name in OURS:
            raise ValueError(f"{name} is set by the connector: {OURS[name]}")
    try:
        Producer({**QUIET, **extra, **options})
    except KafkaException as refused:
        reason = reason_of(refused)
        raise ValueError(f"librdkafka refuses it: {reason}{_suggestion(reason, options)}") from None
    return options


def _suggestion(reason: str, options: Mapping[str, Option]) -> str:
    if NO_SUCH not in reason:
        return ""
    unknown = next((name for name in options if f'"{name}"' in reason), None)
    hint = did_you_mean(unknown, KNOWN, cutoff=0.75) if unknown is not None else None
    return f": {hint}" if hint else ""


def reason_of(error: KafkaException | KafkaError) -> str:
    """The text of an error, in one line."""
    if isinstance(error, KafkaException):
        inner = error.args[0] if error.args else None
        text = inner.str() if isinstance(inner, KafkaError) else str(error)
    else:
        text = error.str()
    return _COUNTED.sub("", " ".join(text.split()))


def _address(text: str) -> Address:
    """Raises ValueError."""
    if "://" in text or "," in text:
        raise ValueError(f"{text!r} is not host:port")
    return parse_address(text, scheme="kafka", default_port=PORT)
