"""A log names the codec of its events so that another process decodes them as this one did,
whatever the files say then."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from pyspark_walflow.tags import TagDecoder
from tests.codecs.test_protobuf import DESCRIPTORS, EMPTY, TEST
from walflow import WalflowError, codecs
from walflow.codecs import make
from walflow.delivery.tag import Tags, arrived, plain, provenance, without_place
from walflow.event import Block, Codec, Frames, StreamId
from walflow.framing import MESSAGES
from walflow.receipt import Receipt
from walflow.wal.arrivals import Provenance

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
CONFIGURED: list[tuple[str, dict[str, object], bytes, object]] = [
    ("syslog", {"timezone": "Europe/Berlin"}, b"<13>2026-01-01T00:00:00Z h a: x", None),
    ("avro", {"schema_file": "r.avsc", "format": "datum"}, b"\x02x", {"x": "x"}),
    ("protobuf", {"descriptor_file": "t.pb", "message": "t.Test"}, TEST.encode({"a": 150}), {**EMPTY, "a": 150}),
    ("json", {"mode": "sorted"}, b'{"a":1}', {"a": 1}),
]


@pytest.mark.parametrize(("name", "config", "payload", "value"), CONFIGURED)
def test_a_later_process_decodes_the_same(
    name: str,
    config: dict[str, object],
    payload: bytes,
    value: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "t.pb").write_bytes(DESCRIPTORS)
    codec = codecs.registered()[name](config)
    encoded = Tags().encode(block(codec, payload))
    (tmp_path / "r.avsc").write_text('"long"')
    (tmp_path / "t.pb").unlink()
    again = Tags().decode(encoded).codec
    assert again.decode(payload) == codec.decode(payload)
    assert again.encode(codec.decode(payload)) == codec.encode(codec.decode(payload))
    if value is not None:
        assert again.decode(payload) == value


def test_a_codec_without_configuration_is_its_name() -> None:
    assert Tags().decode(Tags().encode(block(make("statsd"), b"a:1|c"))).codec is make("statsd")


def block(codec: Codec, payload: bytes) -> Block:
    frames = Frames(MESSAGES.join([payload]), 1, MESSAGES)
    receipt = Receipt(lambda _: None, 1)
    receipt.ack()
    return Block(StreamId("c", 1, 1), frames, codec, receipt, ingest_ns=0, meta={})


CAME = Provenance("0123456789abcdef" * 2, 0xFFFFFFFF, 1, (1 << 64) - 1)


def test_where_events_came_from_is_the_last_member_and_the_rest_is_as_it_was() -> None:
    tag = Tags().encode(block(make("json"), b"1"))
    longer = arrived(tag, CAME)
    assert (provenance(longer), without_place(longer)) == (CAME, tag)
    assert (provenance(tag), without_place(tag)) == (None, tag)
    assert msgspec.msgpack.decode(longer) == [*msgspec.msgpack.decode(tag), longer[-36:]]
    assert Tags().decode(longer) == Tags().decode(tag)
    assert TagDecoder().shape(longer) == TagDecoder().shape(tag)


def test_from_the_second_block_on_a_stream_has_a_short_tag() -> None:
    tags, one = Tags(), block(make("json"), b"1")
    first, second, third = (tags.encode(one) for _ in range(3))
    assert len(second) < len(first)
    assert second is third
    assert (plain(first), plain(second)) == (first, first)
    readers = Tags(), TagDecoder()
    assert readers[0].decode(first) is readers[0].decode(second)
    assert readers[1].shape(first) == readers[1].shape(second)


def test_a_short_tag_says_where_its_events_came_from() -> None:
    tags, one = Tags(), block(make("json"), b"1")
    long, short = tags.encode(one), tags.encode(one)
    longer = arrived(short, CAME)
    assert len(longer) == len(short) + 38
    assert (provenance(longer), without_place(longer), plain(longer)) == (CAME, short, long)
    assert Tags().decode(longer) == Tags().decode(long)
    assert TagDecoder().shape(longer) == TagDecoder().shape(long)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_tag_or_are_refused(encoded: bytes) -> None:
    for some in (encoded, b"\x01" + encoded, b"\x02" + encoded):
        with suppress(msgspec.DecodeError, WalflowError):
            Tags().decode(some)
        with suppress(ValueError):
            TagDecoder().shape(some)


@given(st.binary(max_size=120))
def test_any_bytes_say_where_they_came_from_or_do_not(encoded: bytes) -> None:
    came = provenance(encoded)
    if came is not None:
        assert arrived(without_place(encoded), came) == encoded
