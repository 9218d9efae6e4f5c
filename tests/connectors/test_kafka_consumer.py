"""A member of a group: which offsets it commits, and what comes to another member."""

import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence

import pytest
from pydantic import ValidationError

from connectors.kafka import KafkaConsumer
from connectors.kafka.consumer_run import POLL
from tests.connectors.kafka_world import cluster, committed, consuming, jobs_of, put
from tests.waiting import until
from walflow import Block
from walflow.testing import MemoryOutlet

pytestmark = pytest.mark.test  # the mock cluster waits for three seconds before a group begins


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with cluster() as brokers:
        yield brokers


@pytest.fixture
def topic() -> str:
    """Of this test alone, also on the other loop."""
    return uuid.uuid4().hex


def values(out: MemoryOutlet) -> list[object]:
    return [value for block in out.sent for value in block.values]


def ack(blocks: Sequence[Block]) -> None:
    for block in blocks:
        if block.receipt.pending:
            block.receipt.ack()


async def test_a_message_is_an_event_with_its_key_headers_and_place(brokers: str, topic: str) -> None:
    put(brokers, topic, b'{"n":1}', key=b"k")
    async with consuming(brokers, topic) as out:
        await until(lambda: out.sent)
        (block,) = out.sent
        assert block.values == [{"n": 1}]
        assert block.event_metas is not None
        told = block.event_metas[0]["kafka_consumer"]
        assert isinstance(told, dict)
        assert told.pop("timestamp") > 1_700_000_000 * 10**9
        headers = {"a": b"1", "b": [b"2", b"3"]}
        assert told == {"key": b"k", "headers": headers, "topic": topic, "partition": 0, "offset": 0}
        ack(out.sent)
    assert committed(brokers, topic) == 1


@pytest.mark.nightly
async def test_an_offset_is_committed_when_all_before_it_are_settled(brokers: str, topic: str) -> None:
    put(brokers, topic, b"0")
    async with consuming(brokers, topic, session_ms=3_000) as out:
        await until(lambda: len(out.sent) == 1)
        put(brokers, topic, b"1", b"bad", b"3")
        await until(lambda: values(out) == [0, 1, 3])
        ack(out.sent[1:])
        ((event, reason),) = out.rejected
        assert event == b"bad\n"
        assert reason.endswith(f"(topic {topic}, partition 0, offset 2)")
        first = out.sent[0]
    assert committed(brokers, topic) < 0  # none, for the first is not acked
    async with consuming(brokers, topic) as out:
        await until(lambda: values(out) == [0, 1, 3])
        ack(out.sent)
        ack([first])  # of a member that has left: it changes nothing
    assert committed(brokers, topic) == 4


async def test_what_a_sink_fails_is_sent_again_before_newer_events(brokers: str, topic: str) -> None:
    put(brokers, topic, b"0")
    async with consuming(brokers, topic) as out:
        await until(lambda: values(out) == [0])
        out.sent[0].receipt.fail(OSError("no"))
        put(brokers, topic, b"1")
        await until(lambda: values(out) == [0, 0, 1])
        ack(out.sent)
    assert committed(brokers, topic) == 2
    assert out.counters["redelivered_events_total"].value == 1


async def test_a_breaker_pauses_it_and_the_group_keeps_it(brokers: str, topic: str) -> None:
    put(brokers, topic, b"0")
    async with consuming(brokers, topic) as out:
        await until(lambda: out.sent)
        out.pause()
        put(brokers, topic, *(b"%d" % number for number in range(1, 100)))
        await until(lambda: out.gauges["kafka_paused"]())
        assert values(out) == [0]
        out.resume()
        await until(lambda: values(out) == list(range(100)))
        assert out.counters["rebalances_total"].value == 1
        ack(out.sent)
    assert committed(brokers, topic) == 100


async def test_an_event_that_always_fails_leaves_by_err_and_its_partition_goes_on(brokers: str, topic: str) -> None:
    def settle() -> bool:
        for block in out.sent:
            if block.receipt.pending:
                block.receipt.fail(OSError("no")) if "poison" in block.values else block.receipt.ack()
        return bool(out.rejected)

    put(brokers, topic, b"0", b'"poison"', b"2")
    async with consuming(brokers, topic, max_attempts=3) as out:
        await until(settle)
        put(brokers, topic, b"3")
        await until(lambda: settle() and 3 in values(out))
        settle()
    ((event, reason),) = out.rejected
    assert event == b'"poison"\n'
    assert re.fullmatch(rf"failed \d times.*: no \(topic {topic}, partition 0, offset 1\)", reason)
    assert committed(brokers, topic) == 4


@pytest.mark.nightly
async def test_another_member_gets_what_is_not_acked_and_no_event_that_is(brokers: str, topic: str) -> None:
    for partition in range(4):
        put(brokers, topic, *(b"%d" % (10 * partition + n) for n in range(5)), partition=partition)
    async with consuming(brokers, topic, session_ms=6000) as other:
        async with consuming(brokers, topic, session_ms=6000) as one:
            await until(lambda: len(values(one)) + len(values(other)) >= 20)
            acked = [block for out in (one, other) for block in out.sent if 0 in block.values]
            ack(acked)
            await until(lambda: one.gauges["kafka_assigned_partitions"]() == 2)
            unacked = [value for value in values(one) if value not in range(5)]
            before = len(values(other))
        await until(lambda: len(values(other)) >= before + len(unacked))
        assert sorted(map(str, values(other)[before:])) == sorted(map(str, unacked))
        ack(other.sent)
    assert [committed(brokers, topic, partition) for partition in range(4)] == [5] * 4


async def test_a_topic_that_is_not_there_is_one_line(brokers: str, topic: str) -> None:
    async with consuming(brokers, topic, topics=[f"{topic}-missing"]) as out:
        await until(lambda: out.logged)
    assert [f"{topic}-missing" in line["reason"] for line in out.logged] == [True]


async def test_brokers_that_are_away_are_named_before_the_first_assignment(topic: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and it does not listen
        async with consuming(f"127.0.0.1:{silent.getsockname()[1]}", topic) as out:
            await until(lambda: out.explained())
            assert (
                jobs_of(out) * POLL < 2
            )  # seconds, of which a busy machine has more: by how long each read may take
            assert "refused" in out.explained()
            assert out.explained() == out.logged[-1]["reason"]
            before = jobs_of(out)
            await until(lambda: jobs_of(out) > before + 8)
            assert len(out.logged) == 1, "librdkafka says it again and again, with other milliseconds"


MOCK = """
from confluent_kafka import Producer
broker = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1", "log_level": 0})
print(*(f"{each.host}:{each.port}" for each in broker.list_topics(timeout=60).brokers.values()), flush=True)
input()
"""


@pytest.fixture
def process() -> "Iterator[subprocess.Popen[bytes]]":
    """A mock cluster that can be stopped. Its first line names the brokers."""
    with subprocess.Popen([sys.executable, "-c", MOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.send_signal(signal.SIGCONT)
        process.communicate(b"\n")


@pytest.mark.nightly
async def test_brokers_that_hang_do_not_hold_up_the_end(process: "subprocess.Popen[bytes]", topic: str) -> None:
    assert process.stdout is not None
    brokers = process.stdout.readline().decode().strip()
    put(brokers, topic, b"0")
    async with consuming(brokers, topic) as out:
        await until(lambda: values(out) == [0])
        process.send_signal(signal.SIGSTOP)
        ack(out.sent)  # only now: so that its commit is not answered
    assert "group not left" in out.lines


@pytest.mark.quick
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"topics": []}, "at least 1 item"),
        ({"topics": [""]}, "is no topic"),
        ({"group_id": ""}, "at least 1 character"),
        ({"mode": "fast"}, "performance"),
        ({"mode": {"custom": {"retry_failed_events": False}}}, "Input should be True"),
        ({"mode": {"custom": {"rdkafka_options": {"enable.auto.commit": True}}}}, "offsets are committed once"),
        ({"mode": {"custom": {"rdkafka_options": {"foo": 1}}}}, "No such configuration property"),
        ({"mode": {"transactional": {"commit_interval": -1}}}, "greater than or equal to 0"),
    ],
)
def test_bad_keys(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        KafkaConsumer.model_validate({"brokers": ["h"], "topics": ["t"], "group_id": "g", **keys})


@pytest.mark.quick
def test_tremors_modes() -> None:
    def made(mode: object) -> dict[str, str | int | float | bool]:
        keys = {"brokers": ["h"], "topics": ["t"], "group_id": "g", "mode": mode}
        return KafkaConsumer.model_validate(keys).options()

    assert made("performance")["auto.commit.interval.ms"] == 5000
    assert made({"transactional": {"commit_interval": 1_000_000_000}})["auto.commit.interval.ms"] == 1000
    assert made({"custom": {"rdkafka_options": {"auto.offset.reset": "latest"}}})["auto.offset.reset"] == "latest"
    assert made("performance")["enable.auto.offset.store"] is False
