"""Messages to brokers on real sockets, and what becomes of the events."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic import ValidationError

from connectors.kafka import KafkaProducer
from connectors.kafka.message_parts import BadMeta, MessageParts, parts_of
from connectors.kafka.options import KNOWN
from connectors.kafka.producer_run import ASK, POLL, TURN, KafkaProducerRun
from connectors.kafka.settings import NO_SUCH, KafkaAway, reason_of
from tests.connectors.kafka_world import cluster, jobs_of, messages_of, producing
from tests.system.certificates import Authority
from tests.waiting import PATIENCE, until
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, VirtualScheduler

pytestmark = pytest.mark.test  # a broker of librdkafka takes its time


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with cluster() as brokers:
        yield brokers


async def test_an_event_is_a_message_and_acked_after_its_report(brokers: str) -> None:
    async with producing(brokers, topic="plain", key="k") as inlet:
        inlet.give(inlet.lines_of(b'{"a":1}', b"2"), inlet.lines_of(b"3"))
        await until(lambda: len(inlet.settled) == 2)
        assert inlet.acked == [b'{"a":1}\n2\n', b"3\n"]
    found = messages_of(brokers, "plain", 3)
    assert [(message.value(), message.key()) for message in found] == [(b'{"a":1}', b"k"), (b"2", b"k"), (b"3", b"k")]
    assert inlet.counters["messages_total"].value == 3
    assert sum(inlet.histograms["request_seconds taken"].counts)
    assert not sum(inlet.histograms["request_seconds refused"].counts)


async def test_what_waits_for_a_broker_goes_in_more_than_one_turn_of_the_loop(brokers: str) -> None:
    async with producing(brokers, topic="turns") as inlet:
        inlet.give(*(inlet.lines_of(*[b"1"] * 3000) for _ in range(10)))
        sent = [0.0]
        async with asyncio.timeout(PATIENCE):
            while sent[-1] < 30_000:
                await asyncio.sleep(0)
                counter = inlet.counters.get("messages_total")
                sent.append(counter.value if counter is not None else 0.0)
        assert TURN <= max(now - before for before, now in pairwise(sent)) < TURN + 3000
        await until(lambda: len(inlet.settled) == 10)


async def test_brokers_that_are_away_are_named_before_the_topic_is_found() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and it does not listen
        async with producing(f"127.0.0.1:{silent.getsockname()[1]}") as inlet:
            await until(lambda: inlet.explained())
            assert "kafka client error" in inlet.lines
            # within 2 s, of which a busy machine has more: by how long each question may take, and the wait behind it
            assert jobs_of(inlet) * (ASK + POLL) < 2
            await until(lambda: "refused" in inlet.explained())


async def test_metadata_names_key_headers_partition_and_timestamp(brokers: str) -> None:
    meta = {
        "kafka_producer": {
            "key": b"\xff",
            "headers": {"one": "1", "two": [b"2", None]},
            "partition": 3,
            "timestamp": 1_700_000_000_123_456_789,
        }
    }
    async with producing(brokers, topic="parts", key="not this") as inlet:
        inlet.give(inlet.block(b"1\n", meta=meta))
        await until(lambda: inlet.acked)
    (message,) = messages_of(brokers, "parts", 1)
    assert (message.key(), message.partition()) == (b"\xff", 3)
    assert message.headers() == [("one", b"1"), ("two", b"2"), ("two", None)]
    assert message.timestamp()[1] == 1_700_000_000_123


@pytest.mark.parametrize(
    "meta",
    [
        1,
        {"topic": "another"},
        {"key": 1},
        {"partition": -1},
        {"partition": True},
        {"partition": 1 << 31},
        {"timestamp": "now"},
        {"timestamp": 1 << 64},
        {"headers": []},
        {"headers": {"a": 1}},
        {"headers": {"a": [1]}},
    ],
)
def test_metadata_that_no_message_can_have(meta: object) -> None:
    with pytest.raises(BadMeta, match="kafka_producer"):
        parts_of({"kafka_producer": meta}, None)


def test_without_metadata_the_key_is_the_one_of_the_flow_file() -> None:
    assert parts_of({}, "k") == MessageParts("k")
    assert parts_of({"kafka_producer": {"partition": 1}}, "k") == MessageParts("k", 1)


async def test_of_a_block_the_event_that_no_broker_takes_is_rejected_alone(brokers: str) -> None:
    large = b'"%b"' % (b"x" * 2000)
    async with producing(brokers, topic="large", rdkafka_options={"message.max.bytes": 1000}) as inlet:
        inlet.give(inlet.lines_of(b"1", large, b"3"), inlet.lines_of(large))
        await until(lambda: len(inlet.settled) == 2)
    assert inlet.acked == [b"1\n", b"3\n"]
    (first, reason), second = inlet.rejected
    assert first == second[0] == large + b"\n"
    assert "too large" in reason


async def test_a_partition_that_does_not_exist_is_a_reject(brokers: str) -> None:
    async with producing(brokers, topic="four") as inlet:
        inlet.give(inlet.block(b"1\n", meta={"kafka_producer": {"partition": 99}}), inlet.lines_of(b"2"))
        await until(lambda: len(inlet.settled) == 2)
    assert [event for event, _ in inlet.rejected] == [b"1\n"]
    assert inlet.acked == [b"2\n"]


async def test_a_full_queue_stops_the_sources_until_it_has_room(brokers: str) -> None:
    options = {"queue.buffering.max.messages": 10, "linger.ms": 20}
    async with producing(brokers, topic="full", rdkafka_options=options) as inlet:
        events = [b"%d" % number for number in range(55)]
        inlet.give(inlet.lines_of(*events), inlet.lines_of(b"55"))
        await until(lambda: len(inlet.settled) == 2)
        assert inlet.triggered
        await until(lambda: inlet.breaker is None)
    assert len(messages_of(brokers, "full", 56)) == 56


class Faulty(Producer):
    """Tells of some messages what it is told to tell, once each, though they are delivered."""

    def __init__(self, config: dict[str, Any], faults: dict[bytes, list[KafkaError]]) -> None:
        super().__init__(config)
        self._faults = faults

    def produce(self, topic: str, value: Any, *rest: Any) -> None:  # type: ignore[override]
        key, partition, report, *others = rest

        def told(error: KafkaError | None, message: object) -> None:
            faults = self._faults.get(value)
            report(faults.pop(0) if faults else error, message)

        super().produce(topic, value, key, partition, told, *others)


def faulty(**faults: list[int]) -> Callable[..., Producer]:
    """Codes of errors by the message's text, in the order of its attempts."""
    return lambda config: Faulty(
        config, {value.encode(): [KafkaError(code) for code in codes] for value, codes in faults.items()}
    )


async def test_what_a_broker_does_not_take_now_is_sent_again_in_its_place(brokers: str) -> None:
    """It is alone: beside others, chance decides whether they are taken before it fails, and then it may be to
    blame."""
    make = faulty(two=[KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_ENOUGH_REPLICAS])
    async with producing(brokers, topic="again", make=make) as inlet:
        inlet.give(inlet.block(b"two\n"))
        await until(lambda: len(inlet.triggered) >= 2)
        inlet.give(inlet.block(b"four\n"))
        await until(lambda: len(inlet.settled) == 2)
        await until(lambda: inlet.breaker is None)
    assert inlet.acked == [b"two\n", b"four\n"]
    assert inlet.counters["retried_messages_total"].value == 2


async def test_one_that_no_broker_takes_now_fails_alone_once_others_were_taken(brokers: str) -> None:
    make = faulty(bad=[KafkaError.NOT_ENOUGH_REPLICAS] * 100)
    async with producing(brokers, topic="bad", make=make) as inlet:
        inlet.give(inlet.block(b"one\nbad\ntwo\n"))
        given = [*b"1b2"]
        while not inlet.failed:
            inlet.give(inlet.block(b"more\n"))
            given.append(0)
            await until(lambda: inlet.failed or len(b"".join(inlet.acked).split()) >= len(given) - 3)
        await until(lambda: inlet.breaker is None)
        await until(lambda: len(b"".join(inlet.acked).split()) == len(given) - 1)
    ((event, cause),) = inlet.failed
    assert event == b"bad\n"
    assert cause.endswith("times, and others were taken)")


async def test_where_nothing_else_is_in_hand_the_log_gets_it_back(brokers: str) -> None:
    make = faulty(bad=[KafkaError.NOT_ENOUGH_REPLICAS] * 100)
    async with producing(brokers, topic="alone", make=make) as inlet:
        inlet.give(inlet.block(b"bad\n"))
        await until(lambda: inlet.failed)
        assert inlet.half_opened, "and the log may send others"
        assert inlet.breaker is not None
        inlet.give(inlet.block(b"good\n"))
        await until(lambda: inlet.acked == [b"good\n"] and inlet.breaker is None)


async def test_what_is_too_large_together_is_sent_alone_before_it_is_rejected(brokers: str) -> None:
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    make = faulty(one=[too_large], two=[too_large], large=[too_large, too_large])
    async with producing(brokers, topic="together", make=make) as inlet:
        inlet.give(inlet.block(b"one\nlarge\ntwo\n"))
        await until(lambda: inlet.settled)
    assert inlet.acked == [b"one\n", b"two\n"]
    assert [event for event, _ in inlet.rejected] == [b"large\n"]


async def test_a_message_timeout_fails_its_event_and_no_other(brokers: str) -> None:
    async with producing(brokers, topic="late", make=faulty(two=[KafkaError._MSG_TIMED_OUT])) as inlet:
        inlet.give(inlet.block(b"one\ntwo\nthree\n"))
        await until(lambda: inlet.settled)
    assert inlet.acked == [b"one\n", b"three\n"]
    assert [event for event, _ in inlet.failed] == [b"two\n"]


class Silent(Producer):
    """Takes messages, and sends none."""

    def produce(self, *message: Any) -> None:
        pass


async def test_when_it_stops_what_has_no_report_fails(brokers: str) -> None:
    async with producing(brokers, topic="stops", make=Silent) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: "messages_total" in inlet.counters and inlet.counters["messages_total"].value)
    assert inlet.failed == [(b"1\n", "walflow has stopped")]


async def test_without_reports_the_sources_are_stopped(brokers: str) -> None:
    async with producing(brokers, topic="silent", make=Silent) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.breaker)
    assert "no broker has confirmed a message for 3 s" in inlet.triggered[0]


def options(**keys: object) -> KafkaProducer:
    return KafkaProducer.model_validate({"brokers": ["h"], "topic": "t", **keys})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"brokers": []}, "at least 1 item"),
        ({"brokers": ["kafka://h:1"]}, "is not host:port"),
        ({"brokers": ["h:1,i:1"]}, "is not host:port"),
        ({"topic": "a topic"}, "match pattern"),
        ({"rdkafka_options": {"foo": 1}}, 'No such configuration property: "foo"'),
        ({"rdkafka_options": {"batch.size": 1000, "lingr.ms": 5}}, "did you mean `linger.ms`?"),
        ({"rdkafka_options": {"linger.ms": -5}}, "outside allowed range"),
        ({"rdkafka_options": {"acks": 1}}, "acks is set by the connector"),
        ({"rdkafka_options": {"sasl.password": "x"}}, "name a file with it in `sasl`"),
        ({"rdkafka_options": {"max.in.flight.requests.per.connection": 100}}, "librdkafka refuses it"),
        ({"sasl": {"username": "u", "mechanism": "GSSAPI", "password": "p"}}, "PLAIN"),
        ({"tls": {"key": "k"}}, "key needs cert"),
    ],
)
def test_bad_keys(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says.replace("(", "[(]")):
        options(**keys)


@contextmanager
def behind_tls(authority: Authority) -> Iterator[tuple[int, threading.Event]]:
    """A port, and whether a client with a certificate of the authority has sent anything."""
    own, heard = authority.issue("127.0.0.1"), threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own["cert"], own["key"])
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED

    def serve() -> None:
        with suppress(OSError):  # it is shut down
            while True:
                plain, _ = server.accept()
                with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as client:
                    if client.recv(1):
                        heard.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


async def test_it_speaks_tls_with_an_authority_and_a_certificate_of_its_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = {"cafile": authority.file, **authority.issue("edge-1", password="x"), "key_password": "x"}
    with behind_tls(authority) as (port, heard):
        async with producing(f"127.0.0.1:{port}", tls=tls):
            await until(heard.is_set)


async def test_to_a_broker_that_is_not_trusted_nothing_is_sent_and_the_reason_is_one_line(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    with behind_tls(authority) as (port, heard):
        config = options(brokers=[f"127.0.0.1:{port}"], tls={"cafile": other.file})
        scheduler = LoopScheduler("kafka")
        try:
            with pytest.raises(KafkaAway, match="certificate") as raised:
                await KafkaProducerRun(config, MemoryInlet(cast(VirtualScheduler, scheduler))).run()
        finally:
            await scheduler.close()
    assert "\n" not in str(raised.value)
    assert not heard.is_set()


def test_tls_and_sasl_are_librdkafkas() -> None:
    tls = {"cafile": "ca", "cert": "c", "key_password": "x"}
    made = options(tls=tls, sasl={"username": "u", "password": "p"}).options()
    assert made["security.protocol"] == "SASL_SSL"
    assert made["ssl.key.location"] == "c"
    assert (made["sasl.mechanism"], made["sasl.password"]) == ("SCRAM-SHA-512", "p")
    assert options().options()["security.protocol"] == "PLAINTEXT"
    assert options(tls=True).options()["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("keys", "warns"),
    [
        ({}, []),
        ({"sasl": {"username": "u", "password": {"file": "f"}}, "tls": True}, []),
        ({"sasl": {"username": "u", "password": {"file": "f"}}, "brokers": ["127.0.0.1"]}, []),
        ({"sasl": {"username": "u", "password": {"file": "f"}}}, ["without TLS"]),
        ({"sasl": {"username": "u", "password": "p"}, "tls": True}, ["the password stands in the flow file"]),
        ({"tls": {"cert": "c", "key_password": "p"}}, ["the key_password stands in the flow file"]),
    ],
)
def test_warnings(keys: dict[str, object], warns: list[str]) -> None:
    found = options(**keys).guarantee(behind_log=True).warnings
    assert len(found) == len(warns)
    assert all(part in said for part, said in zip(warns, found, strict=True))
    assert "put a log upstream" in options(**keys).guarantee(behind_log=False).warnings[-1]


def test_librdkafka_knows_each_option_that_is_suggested() -> None:
    assert [name for name in KNOWN if NO_SUCH in said_of(name)] == []


def said_of(name: str) -> str:
    try:
        Producer({"log_level": 0, name: "no such value"})
    except KafkaException as refused:
        return reason_of(refused)
    return ""
