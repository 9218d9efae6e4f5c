"""The metrics of both connectors."""

from typing import Final

from walflow import Families, Family
from walflow.net import BROKER_FAMILIES

CONSUMER: Final[Families] = {
    "kafka_assigned_partitions": Family("gauge", "Partitions of the topic that this member of the group reads."),
    "kafka_lag_messages": Family(
        "gauge",
        "Consumer lag: messages of the assigned partitions that are not acked yet, as far as the client knows.",
    ),
    "kafka_paused": Family("gauge", "1 while the assigned partitions are paused because a sink is away."),
    "rebalances_total": Family("counter", "Rebalances: how often the consumer group assigned the partitions anew."),
}

PRODUCER: Final[Families] = {
    "kafka_queued_messages": Family("gauge", "Messages that librdkafka has and that no broker has confirmed."),
    **BROKER_FAMILIES,
}
