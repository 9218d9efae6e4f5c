"""TLS and passwords as a real broker checks them. `pytest -m soak tests/broker`."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from connectors.kafka import KafkaProducer
from connectors.kafka.producer_run import KafkaProducerRun
from connectors.kafka.settings import KafkaAway
from tests.broker.jars import absent
from tests.broker.kafka import PASSWORD, USER, KafkaBroker, kafka
from tests.connectors.kafka_world import consuming, producing
from tests.system.certificates import Authority
from tests.waiting import until
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, VirtualScheduler

pytestmark = [pytest.mark.soak, pytest.mark.skipif(absent() is not None, reason=str(absent()))]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def sasl(mechanism: str, password: str = PASSWORD) -> dict[str, object]:
    return {"mechanism": mechanism, "username": USER, "password": password}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_events_go_through_a_broker_with_tls_and_a_password(broker: KafkaBroker, mechanism: str) -> None:
    topic = uuid.uuid4().hex
    tls = {"cafile": broker.authority.file}
    async with producing(broker.secure, topic=topic, tls=tls, sasl=sasl(mechanism)) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2"))
        await until(lambda: inlet.acked)
    async with consuming(broker.secure, topic, tls=tls, sasl=sasl(mechanism)) as out:
        await until(lambda: {value for block in out.sent for value in block.values} == {1, 2})


async def refusal(**config: object) -> str:
    """Why a run of the sink has ended."""
    connector = KafkaProducer.model_validate({"topic": "events", **config})
    scheduler = LoopScheduler("kafka")
    try:
        with pytest.raises(KafkaAway) as raised:
            await KafkaProducerRun(connector, MemoryInlet(cast(VirtualScheduler, scheduler))).run()
    finally:
        await scheduler.close()
    return str(raised.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_one_line(broker: KafkaBroker, mechanism: str) -> None:
    tls = {"cafile": broker.authority.file}
    reason = await refusal(brokers=[broker.secure], tls=tls, sasl=sasl(mechanism, "wrong"))
    assert "Authentication failed" in reason
    assert "\n" not in reason


async def test_a_broker_of_another_authority_gets_no_event(broker: KafkaBroker, tmp_path: Path) -> None:
    tls = {"cafile": Authority(tmp_path, "other").file}
    assert "certificate" in await refusal(brokers=[broker.secure], tls=tls, sasl=sasl("PLAIN"))
