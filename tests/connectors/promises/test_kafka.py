"""What every sink owes, of `kafka_producer`, with librdkafka's mock cluster on real sockets."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from connectors.kafka import KafkaProducer
from connectors.kafka.producer_run import KafkaProducerRun
from tests.connectors.kafka_world import QUIET, cluster
from tests.waiting import PATIENCE
from walflow import Inlet, Outlet
from walflow.runtime.loop import LoopScheduler
from walflow.testing import VirtualScheduler
from walflow.testing.sinks import RunsSink, SinkSubject, sink_promises

pytestmark = pytest.mark.test  # a broker of librdkafka takes its time


@pytest.fixture(scope="module", autouse=True)
def brokers() -> Iterator[None]:
    with cluster() as KafkaSubject.brokers:
        yield


class WithThread(VirtualScheduler):
    """Jobs are on a real thread: they wait for a broker. So the clock of what a peer owes is real, too."""

    def __init__(self) -> None:
        super().__init__()
        self.real = LoopScheduler("kafka")

    def awake(self) -> float:
        return self.real.awake()

    def submit(
        self, job: Callable[[], None], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.real.submit(job, done, urgent=urgent)


class Gate:
    """Before the brokers. `trouble`: what they are made to say of each message.
    `left`: messages until they say so."""

    def __init__(self) -> None:
        self.trouble = 0
        self.left = 1_000_000
        self.holding = False
        self.taken = 0  # by a broker


class Untimed:
    def latency(self) -> None: ...


class Gated(Producer):
    def __init__(self, config: dict[str, Any], gate: Gate) -> None:
        super().__init__(config)
        self._gate = gate
        self._held: list[tuple[Any, ...]] = []
        self._refused: list[Callable[[KafkaError, Untimed], None]] = []

    def produce(self, *message: Any) -> None:
        gate = self._gate
        if not gate.left:
            gate.trouble = KafkaError.NOT_ENOUGH_REPLICAS
        if gate.trouble:
            self._refused.append(message[4])
        elif gate.holding:
            self._held.append(message)
        else:
            topic, value, key, partition, report, *others = message

            def told(error: KafkaError | None, about: Any) -> None:
                gate.taken += error is None
                report(error, about)

            super().produce(topic, value, key, partition, told, *others)
            gate.left -= 1

    def poll(self, timeout: float = 0.0) -> int:
        if not self._gate.holding:
            held, self._held = self._held, []
            for message in held:
                self.produce(*message)
        refused, self._refused = self._refused, []
        for report in refused:
            report(KafkaError(self._gate.trouble or KafkaError.NOT_ENOUGH_REPLICAS), Untimed())
        return super().poll(min(timeout, 0.01))

    def flush(self, timeout: float = 0.0) -> int:
        end = time.monotonic() + PATIENCE
        while self._gate.holding and time.monotonic() < end:
            time.sleep(0.005)
        self.poll()
        return super().flush(PATIENCE)


class KafkaSubject(SinkSubject):
    """In trouble, the brokers say that there are not enough replicas. A log would get back what is alone in this."""

    brokers: ClassVar[str]
    topics = itertools.count()
    too_large = b'"' + b"x" * 10_000 + b'"'
    bad_meta = {"kafka_producer": {"key": 1}}  # noqa: RUF012  # it is read alone
    behind_log = False
    exactly = False  # a block that fails is sent again whole

    def __init__(self) -> None:
        self._gate = Gate()
        self._topic = f"t{next(self.topics)}"
        self._found: list[bytes] = []
        self._reader: Consumer | None = None

    def scheduler(self) -> VirtualScheduler:
        self._scheduler = WithThread()
        return self._scheduler

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        keys = {
            "brokers": self.brokers.split(","),
            "topic": self._topic,
            "key": "k",  # one partition has one order
            "rdkafka_options": {"message.max.bytes": 10_000, "linger.ms": 0},
        }
        config = KafkaProducer.model_validate(keys)
        await KafkaProducerRun(config, inlet, lambda options: Gated(options, self._gate)).run()

    def got(self) -> Sequence[bytes]:
        """What the brokers have, as soon as they give it."""
        if self._gate.taken and self._reader is None:
            self._reader = Consumer({**QUIET, "bootstrap.servers": self.brokers, "group.id": "test"})
            places = self._reader.list_topics(self._topic, PATIENCE).topics[self._topic].partitions
            self._reader.assign([TopicPartition(self._topic, number, 0) for number in places])
        while self._reader is not None and len(self._found) < self._gate.taken:
            found = self._reader.consume(self._gate.taken - len(self._found), PATIENCE)
            self._found += [message.value() or b"" for message in found]
        return self._found

    def fail(self) -> None:
        self._gate.trouble = KafkaError.NOT_ENOUGH_REPLICAS

    def fail_otherwise(self) -> None:
        self._gate.trouble = KafkaError.UNKNOWN_TOPIC_OR_PART

    def fail_after(self, events: int) -> None:
        self._gate.left = events

    def mend(self) -> None:
        self._gate.trouble, self._gate.left = 0, 1_000_000

    def hold(self, scheduler: VirtualScheduler) -> None:
        self._gate.holding = True

    def release(self, scheduler: VirtualScheduler) -> None:
        self._gate.holding = False

    async def close(self) -> None:
        await self._scheduler.real.close()
        if self._reader is not None:
            self._reader.close()


test_kafka = sink_promises(KafkaSubject)
