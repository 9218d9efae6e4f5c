"""Kafka, by librdkafka (confluent-kafka, the extra `[kafka]`).

`settings` is what both connectors take and hand to librdkafka. `producer` is the sink: `producing` is one run of it,
`outgoing` makes messages of events, `outcomes` says what a failure means. `consumer` is the source: `consuming` is
one run of it, `partition` knows which offsets are acked, `incoming` makes blocks of messages.
"""

from walflow import WalflowError, lacks

try:
    from connectors.kafka.connector import KafkaConsumer, KafkaProducer
except ModuleNotFoundError as missing:
    if missing.name != "confluent_kafka":
        raise
    raise WalflowError(lacks("it", "kafka")) from missing

__all__ = ["KafkaConsumer", "KafkaProducer"]
