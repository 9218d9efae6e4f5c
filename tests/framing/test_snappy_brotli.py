"""Snappy and Brotli: vectors of their specifications, damage, bounds."""

import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.framing.streams import events_of
from walflow.framing import incoming
from walflow.framing.compression import FORMATS, SLICE, Corrupt, Members

INPUTS = 100_000
EMPTY = b"\xff\x06\x00\x00sNaPpY"
# framing_format.txt: an uncompressed chunk has its masked CRC-32C before the data. That of "123456789" is 0xe3069283,
# and masked ((x >> 15 | x << 17) + 0xa282ead8) 0xc78ab0e5
UNCOMPRESSED = b"\x01\x0d\x00\x00" + (0xC78AB0E5).to_bytes(4, "little") + b"123456789"
PADDING = b"\xfe\x03\x00\x00abc"
SKIPPABLE = b"\x80\x01\x00\x00x"
# RFC 7932, section 9.1: a stream of nothing, and one of an uncompressed meta-block as the encoders write it
BROTLI_EMPTY = b"\x06"
BROTLI_HELLO = bytes.fromhex("0b028068656c6c6f03")


def read(algorithm: str | None, *parts: bytes) -> bytes:
    members, found = Members(algorithm), b""
    for part in parts:
        members.feed(part)
        while (item := members.read()) is not None:
            assert len(item[0]) <= SLICE
            found += item[0]
    return found + members.end()


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([EMPTY], b""),
        ([EMPTY, UNCOMPRESSED], b"123456789"),
        ([EMPTY + PADDING + UNCOMPRESSED + SKIPPABLE + EMPTY + UNCOMPRESSED], b"123456789" * 2),
        ([bytes([byte]) for byte in EMPTY + UNCOMPRESSED], b"123456789"),
    ],
)
def test_snappys_frames(parts: Sequence[bytes], content: bytes) -> None:
    assert read("snappy", *parts) == content
    assert read(None, *parts) == content


@pytest.mark.parametrize(
    "damaged",
    [
        EMPTY + UNCOMPRESSED[:-1] + b"8",
        EMPTY + UNCOMPRESSED[:-1],
        EMPTY + b"\x02\x00\x00\x00",
        EMPTY + b"\xff\x06\x00\x00sNaPpZ",
        EMPTY + b"\x00\xff\xff\xff",
        EMPTY + b"\x00\x00\x00\x00",
    ],
    ids=["checksum", "cut", "type", "identifier", "length", "empty"],
)
def test_damaged_snappy(damaged: bytes) -> None:
    with pytest.raises(Corrupt):
        read("snappy", damaged)


@pytest.mark.parametrize(("stream", "content"), [(BROTLI_EMPTY, b""), (BROTLI_HELLO, b"hello")])
def test_brotlis_streams(stream: bytes, content: bytes) -> None:
    assert read("br", stream) == content


@pytest.mark.parametrize("damaged", [BROTLI_HELLO[:-1], b"\x11", b"", b"hello"])
def test_damaged_brotli(damaged: bytes) -> None:
    _, refused = events_of(
        incoming([("length-prefixed", {}), ("decompress", {"algorithm": "br"})]), [framed(damaged)]
    )
    assert len(refused) == 1


@pytest.mark.parametrize("algorithm", ["snappy", "br"])
def test_what_expands_comes_in_limited_parts(algorithm: str) -> None:
    content = bytes(20 << 20)
    packed = FORMATS[algorithm].compress(content, 0)
    assert read(algorithm, packed) == content


@pytest.mark.parametrize("algorithm", ["snappy", "br"])
@settings(max_examples=examples(300))
@given(st.binary(max_size=300), st.integers(0, 400), st.binary(max_size=3))
def test_damage_is_content_or_corrupt_and_nothing_else(algorithm: str, content: bytes, at: int, other: bytes) -> None:
    packed = FORMATS[algorithm].compress(content, 0)
    at %= len(packed)
    damaged = packed[:at] + other + packed[at + len(other) :]
    with suppress(Corrupt):
        read(algorithm, damaged)


def framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(8, "big") + piece


def look(algorithm: str, inputs: int) -> tuple[int, int]:
    """How many could be read, and how many are corrupt."""
    dice = random.Random(7)
    good = 0
    for _ in range(inputs):
        packed = bytearray(FORMATS[algorithm].compress(dice.randbytes(dice.randrange(200)) * dice.randrange(1, 4), 0))
        for _ in range(dice.randrange(1, 4)):
            packed[dice.randrange(len(packed))] = dice.randrange(256)
        with suppress(Corrupt):
            read(algorithm, bytes(packed[: dice.randrange(len(packed)) + 1]))
            good += 1
    return good, inputs - good


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", ["snappy", "br"])
def test_a_hundred_thousand_damaged_streams(algorithm: str) -> None:
    assert sum(look(algorithm, INPUTS)) == INPUTS
