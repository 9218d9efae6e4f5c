"""librdkafka's mock cluster: brokers that speak Kafka's protocol on real sockets, in this process."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, cast

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from connectors.kafka import KafkaConsumer, KafkaProducer
from connectors.kafka.producer_run import KafkaProducerRun
from tests.connectors.started import started
from tests.waiting import PATIENCE
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

QUIET: Final = {"log_level": 0}


@contextmanager
def cluster() -> Iterator[str]:
    """Yields its brokers. Topics are made when they are named first, with 4 partitions."""
    broker = Producer({**QUIET, "test.mock.num.brokers": 1, "bootstrap.servers": "mock:1"})
    brokers = broker.list_topics(timeout=PATIENCE).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    del broker


def put(brokers: str, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None) -> None:
    client = Producer({**QUIET, "bootstrap.servers": brokers})
    for value in values:
        client.produce(topic, value, key, partition, headers=[("a", b"1"), ("b", b"2"), ("b", b"3")])
    assert client.flush(PATIENCE) == 0


def messages_of(brokers: str, topic: str, count: int) -> list[Message]:
    """All of its partitions, as soon as there are so many. They come in order within a partition."""
    client = Consumer({**QUIET, "bootstrap.servers": brokers, "group.id": "test"})
    places = client.list_topics(topic, PATIENCE).topics[topic].partitions
    client.assign([TopicPartition(topic, number, 0) for number in places])
    found: list[Message] = []
    while len(found) < count:
        found += client.consume(count - len(found), PATIENCE)
    client.close()
    return found


def committed(brokers: str, topic: str, partition: int = 0) -> int:
    """By the group that has the topic's name."""
    client = Consumer({**QUIET, "bootstrap.servers": brokers, "group.id": topic})
    (place,) = client.committed([TopicPartition(topic, partition)], PATIENCE)
    client.close()
    return place.offset


class CountingScheduler(LoopScheduler):
    """Counts the jobs of its thread: reads, and questions to a broker."""

    jobs = 0

    def submit(
        self, job: Callable[[], None], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs += 1
        super().submit(job, done, urgent=urgent)


def jobs_of(half: MemoryInlet | MemoryOutlet) -> int:
    return cast(CountingScheduler, half.scheduler).jobs


@asynccontextmanager
async def producing(
    brokers: str,
    *,
    topic: str = "t",
    replaceable: bool = False,
    make: Callable[..., Producer] = Producer,
    **config: object,
) -> AsyncIterator[MemoryInlet]:
    scheduler = CountingScheduler("kafka")
    inlet = MemoryInlet(cast(VirtualScheduler, scheduler), behind_log=True, replaceable=replaceable)
    connector = KafkaProducer.model_validate({"brokers": brokers.split(","), "topic": topic, **config})
    async with started(KafkaProducerRun(connector, inlet, make).run(), scheduler):
        yield inlet


@asynccontextmanager
async def consuming(
    brokers: str, topic: str, *, session_ms: int = 45_000, **config: object
) -> AsyncIterator[MemoryOutlet]:
    """In the group that has the topic's name.
    `session_ms`: the mock cluster lets a second member in after so long."""
    scheduler = CountingScheduler("kafka")
    out = MemoryOutlet(cast(VirtualScheduler, scheduler))
    mode = {"custom": {"rdkafka_options": {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 100}}}
    keys = {"brokers": brokers.split(","), "topics": [topic], "group_id": topic, "mode": mode, **config}
    try:
        async with started(KafkaConsumer.model_validate(keys).run(MemoryInlet(out.scheduler), out), scheduler):
            yield out
    finally:
        for block in out.sent:
            if block.receipt.pending:
                block.receipt.ack()
