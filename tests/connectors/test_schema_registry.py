"""The registry's wire format in both directions, beside a stand-in for the registry."""

import io
import json
import struct

import fastavro
import pytest
from pydantic import ValidationError

from connectors.registry import SchemaRegistry
from tests.connectors.asked import AskedConnector, asking
from tests.connectors.registry_stub import registry
from tests.waiting import until
from walflow.codecs import BINARY
from walflow.framing import MESSAGES

POINT: dict[str, object] = {
    "type": "record",
    "name": "point",
    "fields": [{"name": "x", "type": "long"}, {"name": "tag", "type": ["null", "bytes"], "default": None}],
}
NAME: dict[str, object] = {"type": "record", "name": "name", "fields": [{"name": "name", "type": "string"}]}
FAST = {"retry": {"interval_ms": 1, "growth_rate": 1}}


def schema(made: object, **more: object) -> dict[str, object]:
    return {"schema": json.dumps(made), **more}


def wire(number: int, made: object, value: object) -> bytes:
    """As Confluent's own serializer writes it."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(made, _force=True), value)  # type: ignore[arg-type]  # a schema
    return struct.pack(">bI", 0, number) + data.getvalue()


def decoding(url: str, **keys: object) -> SchemaRegistry:
    return SchemaRegistry.model_validate({"url": url, "mode": "decode", "reconnect": FAST, **keys})


def give(asked: AskedConnector, *payloads: bytes, **meta: object) -> None:
    asked.inlet.give(asked.inlet.block(MESSAGES.join(payloads), codec=BINARY, framing=MESSAGES, meta=meta))


async def test_values_come_out_by_the_schema_that_each_names_and_a_schema_is_asked_for_once() -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {7: schema(POINT), 70_000: schema(NAME)}
        first, second = {"x": 1, "tag": b"\xff"}, {"x": 2, "tag": None}
        give(asked, wire(7, POINT, first), wire(7, POINT, second), wire(70_000, NAME, {"name": "a"}), came="here")
        give(asked, wire(7, POINT, second))
        await until(lambda: len(asked.answers()) == 4)
        assert asked.answers() == [first, second, {"name": "a"}, second]
        assert [block.meta for block in asked.out.sent] == [
            {"came": "here", "schema_registry": {"id": 7}},
            {"came": "here", "schema_registry": {"id": 70_000}},
            {"schema_registry": {"id": 7}},
        ]
        assert stub.asked == ["/schemas/ids/7", "/schemas/ids/70000"]
        assert not asked.inlet.acked
        asked.ack()
        assert [(receipt.count, receipt.cause) for receipt in asked.inlet.settled] == [(3, None), (1, None)]


async def test_a_value_carries_its_schema_so_a_log_behind_can_read_it_without_the_registry() -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {7: schema(POINT)}
        give(asked, wire(7, POINT, {"x": 1, "tag": None}))
        await until(lambda: asked.out.sent)
        (block,) = asked.out.sent
        assert (block.codec.name, block.codec.config) == ("avro", {"schema": POINT, "format": "datum"})


BAD = [
    (b"", "begins with a zero byte"),
    (b"\0\0\0\0", "begins with a zero byte"),
    (b"{} is JSON", "begins with a zero byte"),
    (wire(8, POINT, {"x": 1}), "the registry does not know schema 8"),
    (wire(7, POINT, {"x": 1}) + b"x", "1 bytes follow the value"),
    (struct.pack(">bI", 0, 7), "not avro of this schema"),
    (struct.pack(">bI", 0, 9), "schema 9 is PROTOBUF"),
    (struct.pack(">bI", 0, 10), "contains itself"),
    (struct.pack(">bI", 0, 11), "refers to others"),
]


@pytest.mark.parametrize(("payload", "reason"), BAD, ids=[reason for _, reason in BAD])
async def test_what_can_never_be_read_is_rejected_and_its_neighbours_pass(payload: bytes, reason: str) -> None:
    itself = {"type": "record", "name": "r", "fields": [{"name": "r", "type": ["null", "r"]}]}
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {
            7: schema(POINT),
            9: schema(POINT, schemaType="PROTOBUF"),
            10: schema(itself),
            11: schema(POINT, references=[{"name": "a"}]),
        }
        good = wire(7, POINT, {"x": 1})
        give(asked, good, payload, good)
        await until(lambda: len(asked.answers()) == 2)
        ((data, told),) = asked.inlet.rejected
        assert reason in told
        assert MESSAGES.payloads(data) == [payload]


@pytest.mark.parametrize("status", [401, 429, 500, 503, 302])
async def test_while_the_registry_is_away_events_are_held_and_what_is_known_passes(status: int) -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {7: schema(POINT), 8: schema(POINT)}
        give(asked, wire(7, POINT, {"x": 1}))
        await until(lambda: len(asked.answers()) == 1)
        stub.status = status
        give(asked, wire(8, POINT, {"x": 3}))
        await until(lambda: asked.inlet.breaker)
        give(asked, wire(7, POINT, {"x": 2}))
        await until(lambda: len(asked.answers()) == 2)
        stub.status = 200
        await until(lambda: len(asked.answers()) == 3)
        assert not asked.inlet.rejected
        assert not asked.inlet.failed


async def test_a_schema_that_is_never_answered_fails_its_event_alone() -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {number: schema(POINT) for number in (7, 8)}
        stub.broken = {8}
        bad = wire(8, POINT, {"x": 0})
        give(asked, *[wire(7, POINT, {"x": 1})] * 3, bad, *[wire(7, POINT, {"x": 2})] * 4)
        await until(lambda: len(asked.answers()) == 7)
        while not asked.inlet.failed:
            tries = len(stub.asked)
            await until(lambda tries=tries: asked.inlet.failed or len(stub.asked) > tries)  # type: ignore[misc]
            give(asked, wire(7, POINT, {"x": 3}))
        assert [MESSAGES.payloads(data) for data, _ in asked.inlet.failed] == [[bad]]


async def test_no_registry_at_all_is_one_line_and_the_sources_wait() -> None:
    async with registry() as stub:
        gone = stub.url
    async with asking(decoding(gone, reconnect={})) as asked:
        give(asked, wire(7, POINT, {"x": 1}))
        await until(lambda: asked.inlet.breaker)
        assert "the registry does not answer" in str(asked.inlet.breaker)
        assert "\n" not in str(asked.inlet.breaker)
        assert not asked.inlet.failed


async def test_values_go_in_by_the_newest_schema_of_the_subject() -> None:
    async with registry("me", "p\xe4ss") as stub:
        connector = SchemaRegistry.model_validate(
            {
                "url": f"{stub.url}/",
                "mode": "encode",
                "subject": "a/b",
                "username": "me",
                "password": "p\xe4ss",
                "reconnect": FAST,
            }
        )
        async with asking(connector) as asked:
            asked.ask(b'{"x":1}')
            await until(lambda: asked.inlet.breaker)  # there is no such subject yet
            stub.schemas, stub.subjects = {7: schema(POINT)}, {"a/b": 7}
            asked.inlet.give(asked.inlet.lines_of(b'{"x":1}', b'{"y":1}', b'{"x":1e999}', b'{"x":3,"tag":null}'))
            await until(lambda: len(asked.answers()) == 3)
            assert asked.answers() == [wire(7, POINT, {"x": x}) for x in (1, 1, 3)]
            assert [reason[:28] for _, reason in asked.inlet.rejected] == ["not of this avro schema: Val"] * 2
            assert set(stub.asked) == {"/subjects/a%2Fb/versions/latest"}


async def test_a_failure_behind_it_fails_the_events_that_it_came_from() -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {7: schema(POINT)}
        give(asked, wire(7, POINT, {"x": 1}), wire(7, POINT, {"x": 2}))
        await until(lambda: asked.out.sent)
        asked.out.sent[0].receipt.fail(OSError("no"), 1)
        ((data, cause),) = asked.inlet.failed
        assert (MESSAGES.payloads(data), cause) == ([wire(7, POINT, {"x": 2})], "no")


async def test_a_breaker_behind_it_holds_the_events() -> None:
    async with registry() as stub, asking(decoding(stub.url)) as asked:
        stub.schemas = {7: schema(POINT)}
        asked.out.pause()
        give(asked, wire(7, POINT, {"x": 1}), wire(7, POINT, {"x": 2}))
        await until(lambda: stub.asked)
        asked.out.resume()
        await until(lambda: len(asked.answers()) == 2)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"mode": "encode"}, "name a subject for encode"),
        ({"mode": "decode", "subject": "s"}, "name a subject for encode, and none for decode"),
        ({"mode": "decode", "url": "ftp://h"}, "is not http"),
        ({"mode": "decode", "url": "http://u:p@h"}, "a name or a password"),
        ({"mode": "decode", "username": "u"}, "both of username and password"),
    ],
)
def test_what_cannot_be_meant_is_refused(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        SchemaRegistry.model_validate({"url": "http://127.0.0.1:1", **keys})
