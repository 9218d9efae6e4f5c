from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from connectors.kafka.families import CONSUMER
from connectors.kafka.settings import KafkaConnector, Option, check_options
from walflow import Families, Guarantee, Lossless, Ports, Traits

INTERVAL: Final = 5_000_000_000  # nanoseconds, as librdkafka's own
DEFAULTS: Final[Mapping[str, Option]] = {
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    "queued.max.messages.kbytes": 16384,  # read ahead, beside the window; librdkafka's own is 64 MiB
    "fetch.queue.backoff.ms": 20,  # once that is full; librdkafka's own second would be a pause without messages
}


class TransactionalKeys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    commit_interval: int = Field(
        default=INTERVAL,
        ge=0,
        description="Nanoseconds between commits of offsets. 0: a commit for each block that is acked.",
    )


class CustomKeys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rdkafka_options: Mapping[str, Option] = Field(
        default={}, description="Options of librdkafka, for example `auto.offset.reset` or `session.timeout.ms`."
    )
    retry_failed_events: Literal[True] = Field(
        default=True, description="Accepted for tremor's flows: events that fail are always sent again."
    )

    @field_validator("rdkafka_options")
    @classmethod
    def _are_options(cls, options: Mapping[str, Option]) -> Mapping[str, Option]:
        return check_options(options, {"group.id": "check"})


class TransactionalMode(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    transactional: TransactionalKeys = TransactionalKeys()


class CustomMode(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    custom: CustomKeys


class KafkaConsumerKeys(KafkaConnector):
    """What `KafkaConsumer` takes."""

    ports: ClassVar[Ports] = Ports(inputs=())
    traits: ClassVar[Traits] = KafkaConnector.traits._replace(transactional=True)
    families: ClassVar[Families] = CONSUMER

    group_id: str = Field(
        min_length=1, description="The consumer group. Its members share the partitions.", examples=["walflow"]
    )
    topics: tuple[str, ...] = Field(
        min_length=1,
        description="The topics. One that begins with `^` is a regular expression.",
        examples=[["events"]],
    )
    mode: Literal["performance"] | TransactionalMode | CustomMode = Field(
        default="performance",
        description="tremor's modes: `performance`, or a record with one of the keys below. In each of them an "
        "offset is committed only when all events before it are acked or rejected. Without the key, "
        "offsets are committed every 5 s.",
    )

    max_attempts: int | None = Field(
        default=None,
        ge=1,
        description="How often a single event may fail before it leaves by the err port, so that its partition goes "
        "on. A failure counts only if the sink has taken another event since the one before. Default: no limit.",
    )

    @field_validator("topics")
    @classmethod
    def _are_topics(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        for topic in topics:
            if not topic or "\0" in topic:
                raise ValueError(f"{topic!r} is no topic")
        return topics

    @property
    def commit_interval(self) -> int:
        """In nanoseconds."""
        return self.mode.transactional.commit_interval if isinstance(self.mode, TransactionalMode) else INTERVAL

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source=Lossless(
                "each message is sent until every sink has acked or rejected it, also after a failure of a sink. "
                "Its offset is committed only then, and only when those of all messages before it in its partition "
                "are. After a crash of walflow, or when another member of the group gets the partition, the messages "
                "behind the last commit come again"
            ),
            warnings=tuple(self.warnings()),
        )

    def options(self) -> dict[str, Option]:
        """Raises NoSecret."""
        own: Mapping[str, Option] = self.mode.custom.rdkafka_options if isinstance(self.mode, CustomMode) else {}
        interval = self.commit_interval // 1_000_000
        return {
            **DEFAULTS,
            **self.client_options(),
            **own,
            "group.id": self.group_id,
            "enable.auto.offset.store": False,
            "enable.auto.commit": True,  # of what is stored, and that is what is acked
            "auto.commit.interval.ms": max(1, interval) if self.commit_interval else INTERVAL // 1_000_000,
        }
