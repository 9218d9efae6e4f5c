"""The cluster of the stories, and its clients, do what librdkafka does with its mock cluster."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.connectors.kafka_world import cluster, put
from tests.simulation.flows import FAR, NEAR, Shape, assembled
from tests.simulation.kafka_cluster import (
    TOPIC,
    KafkaCluster,
    KafkaPeer,
    StoryConsumer,
    StoryProducer,
    kafka,
)
from walflow.testing.simulation import Machine, simulated
from walflow.testing.simulation.ends import Outside, outside
from walflow.testing.simulation.strands import Strand

PATIENCE: Final = 60.0
SHAPE: Final = Shape(("memory",), "all", err=False)
QUIET: Final = {"log_level": 0}
VALUES: Final = tuple(b'{"n": %d, "from": "c"}' % number for number in (1, 2, 3))

Made = Callable[..., Any]
Scenario = Callable[[Made, Made, str], list[object]]


def producing(_consumer: Made, make: Made, host: str) -> list[object]:
    facts: list[object] = []
    reports: list[tuple[int | None, bytes | None]] = []

    def report(error: KafkaError | None, message: Message) -> None:
        reports.append((None if error is None else error.code(), message.value()))

    def produce(value: bytes) -> None:
        producer.produce(TOPIC, value, None, 0, report, None, 0, None)

    producer = make({**QUIET, "bootstrap.servers": host, "enable.idempotence": True, "error_cb": lambda error: None})
    facts.append(producer.list_topics(TOPIC, PATIENCE).topics[TOPIC].error)
    for value in VALUES:
        produce(value)
    facts += [len(producer), [*reports]]  # nothing is reported but by `poll`
    while len(reports) < len(VALUES):
        producer.poll(PATIENCE)
    facts += [len(producer), [*reports]]
    produce(VALUES[0])
    producer.purge(blocking=False)
    facts.append(producer.flush(PATIENCE))
    code, purged = reports[-1]
    facts.append((code in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT), purged))
    return facts


class Member:
    """One of the group, and what it was told."""

    def __init__(self, make: Made, host: str) -> None:
        self.told: list[tuple[str, int]] = []
        self.values: list[bytes | None] = []
        config = {
            "bootstrap.servers": host,
            "group.id": "g",
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 100,
            "error_cb": lambda error: None,
            "on_commit": lambda error, parts: None,
        }
        self.client = make({**QUIET, **config})
        tell = {f"on_{what}": partial(self._is_told, what) for what in ("assign", "revoke", "lost")}
        self.client.subscribe([TOPIC], **tell)

    def _is_told(self, what: str, _client: object, parts: list[TopicPartition]) -> None:
        self.told.append((what, len(parts)))

    def poll(self, seconds: float) -> None:
        message = self.client.poll(seconds)
        some = [] if message is None else [message, *self.client.consume(100, 0)]
        self.values += [one.value() for one in some if one.error() is None]


def reading(make: Made, _producer: Made, host: str) -> list[object]:
    member = Member(make, host)
    while len(member.values) < len(VALUES):
        member.poll(PATIENCE)
    facts: list[object] = [[*member.told], [*member.values]]
    member.client.pause(member.client.assignment())
    member.poll(0.3)
    member.client.resume(member.client.assignment())
    facts.append(len(member.values))
    facts.append(member.client.get_watermark_offsets(TopicPartition(TOPIC, 0), cached=True)[1])
    member.client.store_offsets(offsets=[TopicPartition(TOPIC, 0, 2)])
    with pytest.raises(KafkaException) as refused:
        member.client.store_offsets(offsets=[TopicPartition(TOPIC, 99, 1)])
    facts.append(refused.value.args[0].code() != KafkaError.NO_ERROR)
    member.client.close()
    facts.append([*member.told])
    with pytest.raises(RuntimeError):
        member.client.store_offsets(offsets=[TopicPartition(TOPIC, 0, 3)])
    after = Member(make, host)  # goes on behind what was stored
    while not after.values:
        after.poll(PATIENCE)
    facts += [[*after.told], [*after.values]]
    after.client.close()
    return facts


def joining(make: Made, _producer: Made, host: str) -> list[object]:
    """A second member gets half of what the first one had."""
    one = Member(make, host)
    while not one.told:
        one.poll(0.1)
    other = Member(make, host)
    while not other.told or len(one.told) < 3:
        one.poll(0.05)
        other.poll(0.05)
    facts: list[object] = [one.told[:3], other.told[:1]]  # a slow machine may see one more
    for member in (one, other):
        member.client.close()
    return facts


@contextmanager
def real() -> Iterator[Callable[[Scenario], list[object]]]:
    with cluster() as brokers:

        def run(scenario: Scenario) -> list[object]:
            if scenario is not producing:
                put(brokers, TOPIC, *VALUES)
            return scenario(Consumer, Producer, brokers)

        yield run


@contextmanager
def of_the_stories() -> Iterator[Callable[[Scenario], list[object]]]:
    yield _in_a_simulation


def _in_a_simulation(scenario: Scenario) -> list[object]:
    dice = Random(1)
    there, clusters = Outside(dice, SHAPE.client_names, [NEAR, FAR]), KafkaCluster()
    peer = there.peers["clients"] = KafkaPeer("clients", dice)
    found: list[list[object]] = []

    def work() -> None:
        found.append(scenario(StoryConsumer, StoryProducer, "clients"))

    async def story(machine: Machine) -> None:
        clusters.machine = peer.machine = machine
        machine.other("clients")
        clusters.topic("clients").messages[0] += VALUES
        life = machine.start(assembled(SHAPE))
        strands: list[Strand] = []
        life.run(lambda: strands.append(Strand(work, "a client")))
        strands[0].resume()
        while not strands[0].ended:  # noqa: ASYNC110  # nothing says so
            await asyncio.sleep(0.1)

    token, other = outside.set(there), kafka.set(clusters)
    try:
        simulated(story, dice, [])
    finally:
        outside.reset(token)
        kafka.reset(other)
    return found[0]


REPORTED: Final = [(None, value) for value in VALUES]
WANTED: Final[list[tuple[Scenario, list[object]]]] = [
    (producing, [None, 3, [], 0, REPORTED, 0, (True, VALUES[0])]),
    (
        reading,
        [
            [("assign", 4)],
            [*VALUES],
            3,
            3,
            True,
            [("assign", 4), ("revoke", 4)],
            [("assign", 4)],
            [VALUES[2]],
        ],
    ),
    (joining, [[("assign", 4), ("revoke", 4), ("assign", 2)], [("assign", 2)]]),
]


@pytest.mark.parametrize("where", [real, of_the_stories])
@pytest.mark.parametrize(("scenario", "wanted"), WANTED)
def test_clients_are_told_the_same(
    where: Callable[[], AbstractContextManager[Callable[[Scenario], list[object]]]],
    scenario: Scenario,
    wanted: list[object],
) -> None:
    with where() as run:
        assert run(scenario) == wanted
