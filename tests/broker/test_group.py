"""A member that was killed, as a real broker counts it. `pytest -m soak tests/broker`."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Final

import pytest

from tests.broker.jars import absent
from tests.broker.kafka import KafkaBroker, kafka
from tests.connectors.kafka_world import consuming, put
from tests.waiting import until
from walflow.testing import MemoryOutlet

pytestmark = [pytest.mark.soak, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

MEMBER: Final = """
import sys
from confluent_kafka import Consumer
brokers, group, *named = sys.argv[1:]
options = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 10000}
options |= {"bootstrap.servers": brokers, "group.id": group} | {"group.instance.id": name for name in named}
member = Consumer(options)
member.subscribe([group], on_assign=lambda *_: print("assigned", flush=True))
while True:
    member.poll(1)
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def dies_as_a_member(broker: KafkaBroker, group: str, *named: str) -> None:
    put(broker.address, group, b"0")  # a topic that is not there has no members
    arguments = [sys.executable, "-c", MEMBER, broker.address, group, *named]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == b"assigned\n"
        member.kill()


async def test_a_group_that_waits_for_a_dead_member_is_named(broker: KafkaBroker) -> None:
    group = uuid.uuid4().hex
    dies_as_a_member(broker, group)
    async with consuming(broker.address, group) as out:
        await until(lambda: "a group waits for all its members" in out.explained())
        broker.end(signal.SIGKILL)
        await until(lambda: "refused" in out.explained())
        broker.start()
        await until(lambda: out.sent)
        assert out.explained() == ""


async def test_a_member_with_a_name_comes_back_at_once(broker: KafkaBroker) -> None:
    group = uuid.uuid4().hex
    dies_as_a_member(broker, group, "one")
    options = {"group.instance.id": "one", "session.timeout.ms": 10000}
    said: set[str] = set()

    def arrived(out: MemoryOutlet) -> bool:
        said.add(out.explained())
        return bool(out.sent)

    async with consuming(broker.address, group, mode={"custom": {"rdkafka_options": options}}) as out:
        await until(lambda: arrived(out))
    assert said == {""}
