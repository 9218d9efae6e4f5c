"""Both connectors, with a real mosquitto and its own programs."""

import asyncio
import gc
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from pydantic import ValidationError

from connectors.mqtt import MqttPublisher, MqttSubscriber
from tests.connectors.mosquitto import Mosquitto, broker, needs_mosquitto
from tests.connectors.mqtt_broker import (
    FOR_NOW,
    NO_SUCH_VERSION,
    NO_WILDCARDS,
    SESSION_EXPIRY,
    TAKEN_OVER,
    StubBroker,
)
from tests.connectors.started import started
from tests.system.certificates import Authority
from tests.waiting import PATIENCE, until
from walflow import Block
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

QUICK = {"retry": {"interval_ms": 1, "growth_rate": 1.0}}


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    with broker(tmp_path) as made:
        yield made


@asynccontextmanager
async def publishing(
    port: int, *, replaceable: bool = False, behind_log: bool = True, **config: object
) -> AsyncIterator[MemoryInlet]:
    scheduler = LoopScheduler("mqtt")
    inlet = MemoryInlet(cast(VirtualScheduler, scheduler), behind_log=behind_log, replaceable=replaceable)
    keys = {"url": f"mqtt://127.0.0.1:{port}", "topic": "t", "reconnect": QUICK, **config}
    async with started(MqttPublisher.model_validate(keys).run(inlet, MemoryOutlet(inlet.scheduler)), scheduler):
        yield inlet


@asynccontextmanager
async def subscribing(port: int, **config: object) -> AsyncIterator[MemoryOutlet]:
    scheduler = LoopScheduler("mqtt")
    out = MemoryOutlet(cast(VirtualScheduler, scheduler))
    keys = {"url": f"mqtt://127.0.0.1:{port}", "topics": ["t"], "client_id": "c", "reconnect": QUICK, **config}
    try:
        async with started(
            MqttSubscriber.model_validate(keys).run(MemoryInlet(out.scheduler), out), scheduler
        ) as task:
            # or it says why not; of its key it speaks before it connects
            await until(lambda: task.done() or set(out.lines) - {"private key open to others"})
            yield out
    finally:
        ack(out.sent)


def ack(blocks: Sequence[Block]) -> None:
    for block in blocks:
        if block.receipt.pending:
            block.receipt.ack()


def acked(out: MemoryOutlet) -> int:
    """Acks what has come."""
    ack(out.sent)
    return len(values(out))


def values(out: MemoryOutlet) -> list[object]:
    return [value for block in out.sent for value in block.values]


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_event_is_a_message_and_acked_after_its_answer(mosquitto: Mosquitto, version: str, qos: int) -> None:
    mosquitto.keep("t")
    async with publishing(mosquitto.port, version=version, qos=qos) as inlet:
        inlet.give(inlet.lines_of(b'{"a":1}', b"2"), inlet.lines_of(b"3"))
        await until(lambda: len(inlet.settled) == 2)
        assert inlet.acked == [b'{"a":1}\n2\n', b"3\n"]
    assert mosquitto.kept("t", 3) == [b'{"a":1}', b"2", b"3"]


@needs_mosquitto
async def test_a_client_id_may_be_longer_than_each_broker_must_take(mosquitto: Mosquitto) -> None:
    """A thing's name at AWS is its client_id."""
    name = "room-1/" * 18
    async with (
        subscribing(mosquitto.port, client_id=name) as out,
        publishing(mosquitto.port, client_id=name + "p") as inlet,
    ):
        await until(lambda: "subscribed" in out.lines)
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: values(out) == [1])


@needs_mosquitto
async def test_metadata_names_topic_retain_and_properties(mosquitto: Mosquitto) -> None:
    meta = {
        "mqtt_publisher": {
            "topic": "a/b",
            "retain": True,
            "content_type": "text/plain",
            "user_properties": {"one": "1", "two": ["2", "3"]},
        }
    }
    async with publishing(mosquitto.port) as inlet:
        bad = [
            {"topic": "a/#"},
            {"topic": 1},
            {"retain": 1},
            {"content_type": 1},
            {"user_properties": {"a": 1}},
            {"x": 1},
        ]
        inlet.give(
            *(inlet.block(b"0\n", meta={"mqtt_publisher": one}) for one in bad), inlet.block(b"1\n", meta=meta)
        )
        await until(lambda: len(inlet.settled) == 7)
        assert (len(inlet.rejected), inlet.acked) == (6, [b"1\n"])
    async with subscribing(mosquitto.port, topics=["a/+"]) as out:
        await until(lambda: out.sent)
        (block,) = out.sent
        assert block.event_metas is not None
        assert block.event_metas[0]["mqtt_subscriber"] == {
            "topic": "a/b",
            "qos": 1,
            "retain": True,
            "duplicate": False,
            "content_type": "text/plain",
            "user_properties": {"one": ["1"], "two": ["2", "3"]},
        }


@asynccontextmanager
async def refusing(*payloads: bytes) -> AsyncIterator[StubBroker]:
    stub = StubBroker()
    stub.refuses = dict.fromkeys(payloads, FOR_NOW)
    await stub.listen()
    try:
        yield stub
    finally:
        stub.leave()


async def test_while_the_broker_takes_nothing_for_now_all_waits_in_order_and_the_breaker_is_triggered() -> None:
    async with refusing(b"1", b"2", b"3") as stub, publishing(stub.port, qos=1) as inlet:
        inlet.give(inlet.block(b"1\n2\n3\n"))
        await until(lambda: "Quota exceeded" in str(inlet.breaker))
        stub.refuses.clear()
        await until(lambda: inlet.acked)
        await until(lambda: inlet.breaker is None)
    assert (inlet.acked, inlet.failed) == ([b"1\n2\n3\n"], [])


async def test_a_message_that_the_broker_never_takes_for_now_fails_alone_once_others_were_taken() -> None:
    async with refusing(b"bad") as stub, publishing(stub.port, qos=1) as inlet:
        inlet.give(inlet.block(b"1\nbad\n2\n"))
        given = [*b"1b2"]
        while not inlet.failed:
            inlet.give(inlet.block(b"3\n"))
            given.append(0)
            await until(lambda: inlet.failed or len(b"".join(inlet.acked).split()) >= len(given) - 3)
        await until(lambda: len(b"".join(inlet.acked).split()) == len(given) - 1)
        assert [event for event, _ in inlet.failed] == [b"bad\n"]
        await until(lambda: inlet.breaker is None)


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_no_more_is_under_way_than_the_broker_takes(tmp_path: Path, version: str) -> None:
    """Mosquitto refuses or, with 3.1.1, answers and drops what is more."""
    lines = [b"%d" % number for number in range(300)]
    with broker(tmp_path, "max_inflight_messages 3") as mosquitto:
        mosquitto.keep("t")
        async with publishing(mosquitto.port, version=version, qos=2) as inlet:
            inlet.give(inlet.lines_of(*lines))
            await until(lambda: inlet.acked)
            assert inlet.counters["retried_messages_total"].value == 0
        assert mosquitto.kept("t", len(lines)) == lines


@needs_mosquitto
@pytest.mark.parametrize("own", [{}, {"content_type": "text/plain", "user_properties": {"a": ["1", "2"]}}])
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_packet_that_is_too_large_for_the_broker_is_rejected_and_ends_no_connection(
    tmp_path: Path, qos: int, own: dict[str, object]
) -> None:
    most = 1000
    properties = 3 + len("text/plain") + 2 * (1 + 2 + 1 + 2 + 1) if own else 0
    room = most - (1 + 2) - (2 + 1) - 2 * bool(qos) - (1 + properties)  # kind and length, topic, identifier
    with broker(tmp_path, f"max_packet_size {most}") as mosquitto:
        mosquitto.keep("t")
        async with publishing(mosquitto.port, qos=qos) as inlet:
            meta = {"mqtt_publisher": own}
            inlet.give(*(inlet.block(b"x" * size + b"\n", meta=meta) for size in (room, room + 1)))
            await until(lambda: len(inlet.settled) == 2)
            assert inlet.acked == [b"x" * room + b"\n"]
            assert [reason for _, reason in inlet.rejected] == [
                "the message has 1,001 bytes, and the broker takes at most 1,000"
            ]
            assert "disconnected" not in inlet.lines
        assert mosquitto.kept("t", 1) == [b"x" * room]


@needs_mosquitto
async def test_a_broker_that_retains_nothing_gets_nothing_to_retain(tmp_path: Path) -> None:
    with broker(tmp_path, "retain_available false") as mosquitto:
        async with publishing(mosquitto.port) as inlet:
            retained = {"mqtt_publisher": {"retain": True}}
            inlet.give(inlet.block(b"1\n", meta=retained), inlet.block(b"2\n"))
            await until(lambda: len(inlet.settled) == 2)
            assert inlet.rejected == [(b"1\n", "the broker retains no messages")]
            assert inlet.acked == [b"2\n"]
        async with publishing(mosquitto.port, retain=True) as inlet:
            await until(lambda: inlet.breaker)
            assert str(inlet.breaker) == "the broker retains no messages, and retain is true"


@needs_mosquitto
async def test_a_broker_with_less_qos_is_named(tmp_path: Path) -> None:
    with broker(tmp_path, "max_qos 1") as mosquitto:
        async with publishing(mosquitto.port, qos=2) as inlet:
            await until(lambda: inlet.breaker)
            assert str(inlet.breaker) == "the broker takes QoS 1 at most, and qos is 2"
        async with subscribing(mosquitto.port, qos=2) as out:
            await until(lambda: "subscribed" in out.lines)
            assert "lower QoS" in out.lines


async def test_a_subscription_without_answers_is_refused_and_a_shorter_session_told() -> None:
    async with refusing() as stub:
        stub.says = bytes([SESSION_EXPIRY]) + (60).to_bytes(4)
        stub.grants = 0
        async with subscribing(stub.port) as out:
            assert "grants t with QoS 0 only" in str(out.logged[0]["reason"])
            stub.grants = 1
            await until(lambda: "shorter session" in out.lines)
            assert out.logged[-1]["kept_seconds"] == 60


async def test_a_broker_without_this_version_is_told_with_what_to_write() -> None:
    async with refusing() as stub:
        stub.refuses_all = NO_SUCH_VERSION
        async with publishing(stub.port) as inlet:
            await until(lambda: inlet.breaker)
            assert (
                str(inlet.breaker) == 'the broker refuses: Unsupported protocol version: write `"version": "3.1.1"`'
            )


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (NO_WILDCARDS, "Wildcard subscription not supported"),  # HiveMQ does so
        (TAKEN_OVER, "Session taken over: another client has the same client_id"),
    ],
)
async def test_a_broker_that_ends_the_connection_at_a_subscription_says_why(code: int, says: str) -> None:
    async with refusing() as stub:
        stub.grants = code
        async with subscribing(stub.port, topics=["t/#"]) as out:
            assert out.logged[0]["reason"] == f"the broker ended the connection: {says}"


@pytest.mark.nightly
async def test_a_packet_identifier_that_still_waits_for_its_answer_is_not_given_again() -> None:
    """There are 65,535, and one message waits while they go round."""
    async with refusing() as stub, publishing(stub.port, qos=1) as inlet:
        stub.silent = {b"first"}
        inlet.give(inlet.block(b"first\n"))
        lines = [b"%d" % number for number in range(66_000)]
        inlet.give(inlet.lines_of(*lines))
        await until(lambda: inlet.acked)
        stub.silent.clear()
        stub.leave()
        await stub.listen()
        await until(lambda: len(inlet.acked) == 2)
        assert stub.taken == [b"first", *lines, b"first"]


@needs_mosquitto
async def test_a_message_that_ends_each_connection_goes_back_to_the_log_and_others_pass(tmp_path: Path) -> None:
    """Mosquitto answers one that is larger than it takes with a code that MQTT has for other packets,
    and the client ends the connection."""
    with broker(tmp_path, "message_size_limit 8000") as mosquitto:
        async with publishing(mosquitto.port) as inlet:
            large = b'"%b"' % (b"x" * 10_000)
            inlet.give(inlet.lines_of(large))
            await until(lambda: inlet.failed)
            assert inlet.failed[0][0] == large + b"\n"
            inlet.give(inlet.lines_of(b"2"))
            await until(lambda: inlet.acked == [b"2\n"])


def waits(logged: Sequence[Mapping[str, object]]) -> list[float]:
    """Seconds before each new connection, as the lines say."""
    return [cast(float, line["retry_seconds"]) for line in logged if "retry_seconds" in line]


@needs_mosquitto
async def test_a_connection_that_brought_nothing_makes_the_next_wait_longer(tmp_path: Path) -> None:
    """Only a log could find the message that ends it, and there is none."""
    with broker(tmp_path, "message_size_limit 8000") as mosquitto:
        async with publishing(mosquitto.port, behind_log=False, reconnect={}) as inlet:
            inlet.give(inlet.block(b"x" * 10_000 + b"\n"))
            await until(lambda: max(waits(inlet.logged), default=0) > 0.2)


@needs_mosquitto
async def test_two_clients_of_one_name_end_each_others_connections_ever_later(mosquitto: Mosquitto) -> None:
    async with subscribing(mosquitto.port, reconnect={}) as one, subscribing(mosquitto.port, reconnect={}) as two:
        await until(lambda: max(waits(one.logged + two.logged), default=0) > 0.2)


@needs_mosquitto
async def test_a_broker_that_dies_is_waited_for_and_gets_what_it_has_not_answered(mosquitto: Mosquitto) -> None:
    async with publishing(mosquitto.port) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.acked)
        mosquitto.end(signal.SIGKILL)
        await until(lambda: inlet.breaker)
        inlet.give(inlet.lines_of(b"2", b"3"))
        mosquitto.start()
        await until(lambda: len(inlet.acked) == 2)
        assert inlet.breaker is None
        assert inlet.failed == []


@needs_mosquitto
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_the_broker_keeps_a_message_until_its_event_is_acked(
    mosquitto: Mosquitto, version: str, qos: int
) -> None:
    subscribed = partial(subscribing, mosquitto.port, version=version, qos=qos)
    async with subscribed() as out:
        mosquitto.publish("t", [b"1", b"2"], "-q", "2")
        await until(lambda: values(out) == [1, 2])
        sent = out.sent.copy()
        out.sent.clear()
    async with subscribed() as out:
        await until(lambda: values(out) == [1, 2])
        ack(out.sent)
        mosquitto.publish("t", [b"3"])
        await until(lambda: values(out) == [1, 2, 3])
    ack(sent)
    async with subscribed() as out:
        mosquitto.publish("t", [b"4"])
        await until(lambda: 4 in values(out))
        assert values(out) in ([4], [3, 4]), "1 and 2 were acked"


@needs_mosquitto
async def test_after_a_kill_of_the_broker_it_goes_on_and_old_acks_mean_nothing(mosquitto: Mosquitto) -> None:
    async with subscribing(mosquitto.port) as out:
        mosquitto.publish("t", [b"1"])
        await until(lambda: values(out) == [1])
        mosquitto.end(signal.SIGKILL)
        await until(lambda: out.lines.count("disconnected"))
        mosquitto.start()
        await until(lambda: out.lines.count("subscribed") == 2)
        mosquitto.publish("t", [b"2"])
        await until(lambda: 2 in values(out))
        out.sent[0].receipt.ack()  # perhaps by the identifier that 2 has now
        two = out.sent.copy()
        out.sent.clear()
    async with subscribing(mosquitto.port) as out:
        await until(lambda: 2 in values(out))
        ack(two)


@needs_mosquitto
@pytest.mark.parametrize("acked", ["before", "after"])
async def test_with_qos_2_a_message_does_not_come_again_after_a_broken_connection(tmp_path: Path, acked: str) -> None:
    """The broker dies with the PUBREC unread, or before there is one. So it sends the message again."""
    with broker(tmp_path, "autosave_interval 1", "autosave_on_changes true") as mosquitto:
        async with subscribing(mosquitto.port, qos=2) as out:
            mosquitto.publish("t", [b"1"], "-q", "2")
            await until(lambda: values(out) == [1])
            mosquitto.pause()
            if acked == "before":
                ack(out.sent)
            mosquitto.end(signal.SIGKILL)
            await until(lambda: out.lines.count("disconnected"))
            mosquitto.start()
            await until(lambda: out.lines.count("subscribed") == 2)
            mosquitto.publish("t", [b"2"], "-q", "2")
            await until(lambda: 2 in values(out))
            assert values(out) == [1, 2]
            assert out.sent[-1].event_metas is not None
            assert out.sent[-1].event_metas[0]["mqtt_subscriber"] == {
                "topic": "t",
                "qos": 2,
                "retain": False,
                "duplicate": False,
            }
            ack(out.sent)
            await until(lambda: not out.gauges["unacked_messages"]())


@needs_mosquitto
async def test_with_qos_2_the_broker_is_told_at_each_step_and_its_window_moves_on(tmp_path: Path) -> None:
    with broker(tmp_path, "max_inflight_messages 0") as mosquitto:
        async with subscribing(mosquitto.port, qos=2, max_unacked=5) as out:
            mosquitto.publish("t", [b"%d" % number for number in range(100)], "-q", "2")
            await until(lambda: acked(out) >= 100)
            assert values(out) == list(range(100))


@needs_mosquitto
async def test_a_retained_message_comes_with_each_subscription_and_wildcards_choose(mosquitto: Mosquitto) -> None:
    mosquitto.publish("a/b/c", [b"1"], "-r")
    mosquitto.publish("a/b", [b"2"], "-r")
    mosquitto.publish("x/b/c", [b"3"], "-r")
    for topics, expected in (["a/+/c"], [1]), (["a/#"], [1, 2]), (["+/b/#"], [1, 2, 3]):
        async with subscribing(
            mosquitto.port, topics=topics, client_id="".join(topics)[:1] + str(len(expected))
        ) as out:
            await until(lambda: len(values(out)) >= len(expected))  # noqa: B023  # called at once
            metas = [meta["mqtt_subscriber"] for block in out.sent for meta in block.event_metas or ()]
            assert sorted(cast(list[int], values(out))) == expected
            assert all(cast(dict[str, object], meta)["retain"] for meta in metas)


@needs_mosquitto
async def test_what_a_sink_fails_is_sent_again_and_bad_messages_leave_by_err(mosquitto: Mosquitto) -> None:
    async with subscribing(mosquitto.port, topics=["t/#", "$share/group/u"]) as out:
        mosquitto.publish("t", [b"1"])
        await until(lambda: out.sent)
        out.sent[0].receipt.fail(OSError("no"))
        await until(lambda: values(out) == [1, 1])
        mosquitto.publish("t/a/b", [b"bad", b"2"])
        mosquitto.publish("u", [b"3"])
        await until(lambda: values(out) == [1, 1, 2, 3])
        assert [event for event, _ in out.rejected] == [b"bad\n"]
        ack(out.sent)
        await until(lambda: not out.gauges["unacked_messages"]())


@needs_mosquitto
async def test_qos_0_is_dropped_and_counted_where_the_flow_accepts_none(mosquitto: Mosquitto) -> None:
    async with subscribing(mosquitto.port, qos=0) as out:
        out.pause()
        mosquitto.publish("t", [b"%d" % number for number in range(1000)])
        mosquitto.publish("t", [b"1"])
        await until(lambda: out.counters["dropped_events_total"].value)
        out.resume()
        assert "dropped" in out.lines


@needs_mosquitto
async def test_a_password_that_is_wrong_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("user nobody\n")
    with broker(tmp_path, f"acl_file {tmp_path}/acl", "allow_anonymous false") as mosquitto:
        async with subscribing(mosquitto.port, username="u", password="p") as out:
            assert "refuses" in out.logged[0]["reason"]
        async with publishing(mosquitto.port, username="u", password="p") as inlet:
            await until(lambda: inlet.breaker)
            assert "refuses" in str(inlet.breaker)


@needs_mosquitto
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_the_broker_refuses_is_rejected(tmp_path: Path, qos: int) -> None:
    """With QoS 2 the broker says so in PUBREC, and there is neither PUBREL nor PUBCOMP."""
    (tmp_path / "acl").write_text("topic readwrite t\n")
    with broker(tmp_path, f"acl_file {tmp_path}/acl") as mosquitto:
        async with publishing(mosquitto.port, qos=qos) as inlet:
            inlet.give(inlet.block(b"1\n", meta={"mqtt_publisher": {"topic": "not ours"}}), inlet.block(b"2\n"))
            await until(lambda: len(inlet.settled) == 2)
            assert inlet.rejected == [(b"1\n", "the broker refuses: Not authorized")]
            assert inlet.acked == [b"2\n"]


@needs_mosquitto
async def test_tls_with_an_authority_and_a_certificate_of_its_own(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    server = authority.issue("127.0.0.1")
    lines = [
        f"cafile {authority.file}",
        f"certfile {server['cert']}",
        f"keyfile {server['key']}",
        "require_certificate true",
    ]
    made = Mosquitto(tmp_path, *lines)
    made.start()
    try:
        url, own = f"mqtts://127.0.0.1:{made.port}", authority.issue("edge-1")
        tls = {"cafile": authority.file, **own}
        async with subscribing(made.port, url=url, tls=tls) as out, publishing(made.port, url=url, tls=tls) as inlet:
            inlet.give(inlet.lines_of(*(b"%d" % number for number in range(500))))
            await until(lambda: acked(out) >= 500)
            assert values(out) == list(range(500))
        async with publishing(made.port, url=url, tls={"cafile": other.file, **own}) as inlet:
            await until(lambda: inlet.breaker)
            assert "certificate" in str(inlet.breaker)
    finally:
        made.end()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"url": "tcp://h:1"}, "is not host:port"),
        ({"url": "mqtt://u:p@h"}, "is not host:port"),
        ({"tls": True}, "write mqtts://"),
        ({"url": "mqtts://h", "tls": {"domain": "i"}}, "leave domain out"),
        ({"password": "p"}, "password needs username"),
        ({"keepalive": 1}, "greater than or equal"),
        ({"client_id": "\0"}, "no zero character"),
        ({"client_id": "é" * 32_768}, "at most 65,535 bytes"),
    ],
)
def test_bad_keys(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        MqttPublisher.model_validate({"url": "mqtt://h", "topic": "t", **keys})


@pytest.mark.quick
@pytest.mark.parametrize("topic", ["", "a/#/b", "a#", "a/b+", "\0", "x" * 65536])
def test_topics_that_are_none(topic: str) -> None:
    with pytest.raises(ValidationError):
        MqttSubscriber.model_validate({"url": "mqtt://h", "topics": [topic], "client_id": "c"})
    with pytest.raises(ValidationError):
        MqttPublisher.model_validate({"url": "mqtt://h", "topic": topic or "+"})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("keys", "warns"),
    [
        ({}, []),
        ({"username": "u", "password": {"file": "f"}, "url": "mqtts://h"}, []),
        ({"username": "u", "password": {"file": "f"}, "url": "mqtt://127.0.0.1"}, []),
        ({"username": "u", "password": {"file": "f"}}, ["without TLS"]),
        ({"username": "u", "password": "p", "url": "mqtts://h"}, ["the password stands in the flow file"]),
        (
            {"url": "mqtts://h", "tls": {"cert": "c", "key_password": "p"}},
            ["the key_password stands in the flow file"],
        ),
        ({"qos": 0}, ["lost for good"]),
        ({"qos": 2, "version": "3.1.1"}, []),
        ({"qos": 2, "version": "3.1.1", "max_unacked": 2}, ["answer messages that it drops"]),
        ({"qos": 2, "max_unacked": 2}, []),
    ],
)
def test_warnings(keys: dict[str, object], warns: list[str]) -> None:
    made = MqttPublisher.model_validate({"url": "mqtt://h", "topic": "t", **keys})
    found = made.guarantee(behind_log=True).warnings
    assert len(found) == len(warns)
    assert all(part in said for part, said in zip(warns, found, strict=True))


async def test_a_connection_that_is_made_after_the_end_is_closed(tmp_path: Path) -> None:
    """It ends while its thread is in the TLS handshake."""
    authority = Authority(tmp_path)
    server = authority.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server["cert"], server["key"])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        port = listening.getsockname()[1]
        scheduler = LoopScheduler("mqtt")
        inlet = MemoryInlet(cast(VirtualScheduler, scheduler), behind_log=True)
        keys = {"url": f"mqtts://127.0.0.1:{port}", "topic": "t", "tls": {"cafile": authority.file}}
        task = asyncio.ensure_future(MqttPublisher.model_validate(keys).run(inlet, MemoryOutlet(inlet.scheduler)))
        accepted = await asyncio.to_thread(listening.accept)
        await asyncio.to_thread(accepted[0].recv, 1, socket.MSG_PEEK)  # the first of its handshake is there
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with await asyncio.to_thread(context.wrap_socket, accepted[0], server_side=True) as peer:
            await scheduler.close()
            gc.collect()  # one that nobody has closed would warn
            peer.settimeout(PATIENCE)
            with suppress(ConnectionError):  # OpenSSL may want to send when its peer is gone
                while await asyncio.to_thread(peer.recv, 1000):
                    pass
