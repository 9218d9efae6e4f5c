from typing import ClassVar, Literal

from pydantic import Field, field_validator

from connectors.mqtt.families import PUBLISHER
from connectors.mqtt.settings import ClientId, MqttConnector, check_topic
from walflow import Families, Guarantee, Lossless, Ports, Risk


class MqttPublisherKeys(MqttConnector):
    """What `MqttPublisher` takes."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    families: ClassVar[Families] = PUBLISHER

    topic: str = Field(
        description="The topic of each message for which `$mqtt_publisher.topic` names none.", examples=["events"]
    )
    qos: Literal[0, 1, 2] = Field(
        default=1, description="0: at most once. 1: at least once. 2: with two answers for each message."
    )
    retain: bool = Field(
        default=False, description="Whether the broker keeps the last message of a topic for new subscribers."
    )
    client_id: ClientId = Field(default="", description="The name of the client. Default: the broker gives it one.")
    max_unacked: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="How many messages may be sent before the broker has acked them, unless it says that it takes "
        "fewer. Default: 100; with version 3.1.1 and QoS 2, where a broker cannot say so: 1.",
    )

    @field_validator("topic")
    @classmethod
    def _is_topic(cls, topic: str) -> str:
        return check_topic(topic, wildcards=False)

    @property
    def most_unacked(self) -> int:
        """mosquitto 2.0 answers a message of QoS 2 that is more than its max_inflight_messages, and drops it. With
        version 5 it says that number; with 3.1.1 it cannot."""
        if self.max_unacked is not None:
            return self.max_unacked
        return 1 if self._unsaid else 100

    @property
    def _unsaid(self) -> bool:
        return self.version == "3.1.1" and self.qos > 1

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self.warnings()
        if not self.qos:
            if behind_log:
                lost = "with QoS 0 a message lost on its way is lost for good, because a log deletes what is acked"
                warnings.append(Risk("unconfirmed", lost))
            return Guarantee(
                sink="best effort: an event is acked when its message is in the kernel's buffer",
                warnings=tuple(warnings),
            )
        if not behind_log:
            lost = (
                "what the broker has not acked when walflow stops is lost: put a log upstream, which sends it again"
            )
            warnings.append(Risk("no-log", lost))
        if self._unsaid and self.most_unacked > 1:
            lost = (
                f"with version 3.1.1 and QoS 2 a broker may answer messages that it drops, if max_unacked "
                f"({self.most_unacked}) is more than it takes at once (mosquitto: max_inflight_messages, 20): leave "
                "max_unacked out, or use version 5"
            )
            warnings.append(Risk("unconfirmed", lost))
            return Guarantee(
                sink="best effort: an event is acked when the broker has answered its message, which it may drop",
                warnings=tuple(warnings),
            )
        return Guarantee(
            sink=Lossless(
                "an event is acked when the broker has answered its message "
                f"({'PUBACK' if self.qos == 1 else 'PUBCOMP'}). What has no answer is sent again, "
                "so the broker may get it twice"
            ),
            warnings=tuple(warnings),
        )
