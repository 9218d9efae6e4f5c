"""GELF in chunks, in any order, with chunks lost, doubled and forged."""

import gzip
import random

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.framing.streams import LIMIT, events_of
from walflow.framing import BadChainOrder, Named, incoming
from walflow.framing.gelf_chunking import CHUNK, CHUNKS, HELD, MESSAGES, GelfChunking
from walflow.framing.steps import Refused

CHAIN: list[Named] = [("gelf-chunking", {})]


def chunks(data: bytes, size: int, name: bytes = b"12345678") -> list[bytes]:
    """As the specification has them: magic, id, number, count, data."""
    parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    return [b"\x1e\x0f" + name + bytes((number, len(parts))) + part for number, part in enumerate(parts)]


def read(*datagrams: bytes) -> tuple[list[bytes], list[str]]:
    return events_of(incoming(CHAIN, messages=True), datagrams)


def test_what_is_in_one_datagram_is_a_message() -> None:
    text = b'{"version":"1.1","host":"a","short_message":"x"}'
    assert read(text, b"\x1f\x3c" + text, *chunks(text, 1000)) == ([text] * 3, [])


def test_compressed_messages_with_and_without_chunks() -> None:
    text = b'{"version":"1.1"}'
    packed = gzip.compress(text)
    chain = incoming([*CHAIN, ("decompress", {})], messages=True)
    assert events_of(chain, [packed, *chunks(packed, 7), text]) == ([text] * 3, [])


@settings(max_examples=examples(100))
@given(
    st.lists(st.binary(max_size=400), min_size=1, max_size=6), st.integers(5, 50), st.randoms(use_true_random=False)
)
def test_chunks_come_in_any_order_and_twice(messages: list[bytes], size: int, rng: random.Random) -> None:
    sent = [chunk for number, message in enumerate(messages) for chunk in chunks(message, size, b"%08d" % number)]
    rng.shuffle(sent)
    events, refused = read(*sent)
    assert sorted(events) == sorted(messages)
    assert refused == []


def test_a_chunk_that_comes_twice_is_one() -> None:
    first, second = chunks(b"abcdef", 3)
    assert read(first, first, second) == ([b"abcdef"], [])


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"\x1e\x0f", "a chunk of 2 bytes"),
        (b"\x1e\x0f1234567", "a chunk of 9 bytes"),
        (b"\x1e\x0f12345678\x00\x00x", "chunk 0 of 0"),
        (b"\x1e\x0f12345678\x02\x02x", "chunk 2 of 2"),
        (b"\x1e\x0f12345678\x00\x81x", "chunk 0 of 129"),
    ],
)
def test_what_is_no_chunk_costs_only_itself(datagram: bytes, reason: str) -> None:
    events, (refused,) = read(b"before", datagram, *chunks(b"after", 2))
    assert events == [b"before", b"after"]
    assert reason in refused


def test_two_messages_with_one_id_are_refused() -> None:
    events, refused = read(chunks(b"aabb", 2)[0], chunks(b"xxyyzz", 2)[1], b"after")
    assert events == [b"after"]
    assert "two messages with one id" in refused[0]
    events, refused = read(chunks(b"aabb", 2)[0], chunks(b"xxyy", 2)[0])
    assert events == []
    assert "two messages with one id" in refused[0]


def test_chunks_meet_although_each_datagram_is_a_stream() -> None:
    """As `udp_server` has it: found with the daemon, where no message in chunks ever came."""
    step = GelfChunking()
    first, second = chunks(b"abcdef", 3)
    out: list[object] = []
    for datagram in (second, b"other", first):
        decoder = step.decoder(LIMIT, cut_before=True, cut_after=False)
        out += [item for item in decoder.feed(datagram) if isinstance(item, bytes)]
        assert list(decoder.finish(complete=True)) == []
    assert out == [b"other", b"abcdef"]
    assert repr(step) == "<gelf-chunking, 0 incomplete>"


def test_a_message_over_the_limit() -> None:
    part = b"x" * 60000
    assert CHUNKS * len(part) > LIMIT
    events, refused = read(*chunks(part * 20, len(part)), b"after")
    assert events == [b"after"]
    assert "exceeds max_event_bytes" in refused[0]


def test_a_flood_of_first_chunks_holds_a_bounded_number_of_bytes() -> None:
    decoder = GelfChunking().decoder(LIMIT, cut_before=True, cut_after=False)
    dropped = 0
    for number in range(3 * MESSAGES):
        refused = [
            item
            for item in decoder.feed(CHUNK + b"%08d" % number + b"\0\2" + b"x" * 30000)
            if isinstance(item, Refused)
        ]
        assert all("1 of 2 chunks of a gelf message did not come" in item.reason for item in refused)
        dropped += len(refused)
    assert 3 * MESSAGES - dropped == min(MESSAGES, HELD // 30000)


def test_a_flood_of_small_ones_holds_a_bounded_number() -> None:
    decoder = GelfChunking().decoder(LIMIT, cut_before=True, cut_after=False)
    items = [item for number in range(2 * MESSAGES) for item in decoder.feed(CHUNK + b"%08d" % number + b"\0\2")]
    assert sum(isinstance(item, Refused) for item in items) == MESSAGES


@settings(max_examples=examples(100))
@given(st.lists(st.binary(max_size=20).map(lambda tail: CHUNK + tail) | st.binary(max_size=20), max_size=8))
def test_any_datagrams(datagrams: list[bytes]) -> None:
    events, refused = read(*datagrams)
    assert len(events) + len(refused) <= 2 * len(datagrams)


def test_a_stream_has_no_datagrams() -> None:
    with pytest.raises(BadChainOrder, match="has no pieces"):
        incoming(CHAIN)
