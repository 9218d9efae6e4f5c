"""The connectors: their keys, and what runs with them."""

from connectors.kafka.consumer import KafkaConsumerKeys
from connectors.kafka.consumer_run import KafkaConsumerRun
from connectors.kafka.producer import KafkaProducerKeys
from connectors.kafka.producer_run import KafkaProducerRun
from walflow import Inlet, Outlet


class KafkaConsumer(KafkaConsumerKeys):
    """A source that reads topics of Kafka as a member of a consumer group. Each message is an event."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await KafkaConsumerRun(self, out).run()


class KafkaProducer(KafkaProducerKeys):
    """A sink that sends each event as a message to a topic of Kafka."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await KafkaProducerRun(self, inlet).run()
