from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from connectors.mqtt.families import SUBSCRIBER
from connectors.mqtt.settings import ClientId, MqttConnector, check_topic
from walflow import Families, Guarantee, Lossless, Ports, Risk, Traits


class MqttSubscriberKeys(MqttConnector):
    """What `MqttSubscriber` takes."""

    ports: ClassVar[Ports] = Ports(inputs=())
    traits: ClassVar[Traits] = MqttConnector.traits._replace(transactional=True)
    families: ClassVar[Families] = SUBSCRIBER

    topics: tuple[str, ...] = Field(
        min_length=1, description="What to subscribe to, with `+` and `#` as wildcards.", examples=[["events/#"]]
    )
    client_id: ClientId = Field(
        min_length=1,
        description="The name of the session. It must be the same after a restart, and no other client may have it.",
        examples=["walflow"],
    )
    qos: Literal[0, 1, 2] = Field(
        default=1,
        description="The most that messages come with. 1: a message may come twice. 2: a message comes twice only if "
        "walflow ends before the broker has released it, or if the broker loses its session.",
    )
    session_expiry: int = Field(
        default=7 * 86_400_000_000_000,
        ge=1_000_000_000,
        le=(2**32 - 2) * 1_000_000_000,
        description="How long the broker keeps messages for walflow while it is away, in nanoseconds. With version "
        "3.1.1 the broker decides.",
    )
    max_unacked: int = Field(
        default=1000,
        ge=1,
        le=65535,
        description="How many messages the broker may send before they are acked. The broker may have a lower limit "
        "(mosquitto: max_inflight_messages, 20). Version 5 only.",
    )

    max_attempts: int | None = Field(
        default=None,
        ge=1,
        description="How often a single event may fail before it leaves by the err port. A failure counts only if "
        "the sink has taken another event since the one before. Default: no limit.",
    )

    @field_validator("topics")
    @classmethod
    def _are_topics(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        for topic in topics:
            check_topic(topic, wildcards=True)
        return topics

    @model_validator(mode="after")
    def _retries(self) -> Self:
        if self.reconnect.retry.max_retries is not None:
            raise ValueError("a source that gives up would leave the broker with its messages: leave max_retries out")
        return self

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self.warnings()
        if not self.qos:
            kept = "with QoS 0 the broker keeps nothing for walflow, and sends nothing again"
            warnings.append(Risk("unconfirmed", kept))
            return Guarantee(
                source="best effort: messages are lost while walflow is away, and where the flow accepts none",
                warnings=tuple(warnings),
            )
        answer = "PUBACK" if self.qos == 1 else "PUBACK or PUBREC"
        twice = " A broken connection makes no message with QoS 2 come twice." if self.qos == 2 else ""
        return Guarantee(
            source=Lossless(
                "each message with QoS 1 or 2 is sent until every sink has acked or rejected it, and only then "
                f"the broker gets its {answer}. The broker keeps it meanwhile, also over a crash of walflow, and may "
                f"send it twice.{twice} Messages that were published with QoS 0 are lost while walflow is away, and "
                "where the flow accepts none"
            ),
            warnings=tuple(warnings),
        )
