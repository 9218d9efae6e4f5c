from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, field_validator

from connectors.kafka.families import PRODUCER
from connectors.kafka.settings import KafkaConnector, Option, check_options
from walflow import Families, Guarantee, Lossless, Ports, Risk


class KafkaProducerKeys(KafkaConnector):
    """What `KafkaProducer` takes."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    families: ClassVar[Families] = PRODUCER

    topic: str = Field(
        pattern=r"^[A-Za-z0-9._-]{1,249}$", description="The topic of all messages.", examples=["events"]
    )
    key: str | None = Field(
        default=None,
        description="The key of each message for which `$kafka_producer.key` names none. "
        "Messages with one key go to one partition.",
    )
    rdkafka_options: Mapping[str, Option] = Field(
        default={},
        description="Options of librdkafka, for example `linger.ms`, `compression.type` or `batch.size`. With "
        "`message.timeout.ms` an event fails that no broker has taken by then; "
        "without it an event waits as long as the brokers are away.",
    )

    @field_validator("rdkafka_options")
    @classmethod
    def _are_options(cls, options: Mapping[str, Option]) -> Mapping[str, Option]:
        return check_options(options, {"enable.idempotence": True})

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self.warnings()
        if not behind_log:
            lost = "what no broker has taken when walflow stops is lost: put a log upstream, which sends it again"
            warnings.append(Risk("no-log", lost))
        return Guarantee(
            sink=Lossless(
                "an event is acked when all in-sync replicas of its partition have its message. An event that no "
                "broker will take (it is too large, its partition does not exist) is rejected. Any other is sent "
                "until it is taken: after a restart or a failure its message may be there twice"
            ),
            warnings=tuple(warnings),
        )

    def options(self) -> dict[str, Option]:
        """Raises NoSecret."""
        return {
            "message.timeout.ms": 0,  # as long as it takes
            **self.client_options(),
            **self.rdkafka_options,
            "acks": "all",
            "enable.idempotence": True,
        }
