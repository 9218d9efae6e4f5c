"""A hundred thousand damaged streams for each preprocessor: what leaves is events or reasons, and nothing raises.
snappy and br have their own in test_snappy_brotli."""

import random
from collections.abc import Sequence

import pytest

from tests.framing.streams import events_of, written
from walflow.framing import Named, incoming, registered
from walflow.framing.gelf_chunking import CHUNK

INPUTS = 100_000
WORDS = (b"\n", b"\0", b"0", b"9", b"=", b" ", b"\x1f\x8b", b"\xff\xff\xff\xff", CHUNK)
LINES: Sequence[Named] = [("separate", {})]
CHUNKS = [CHUNK + b"12345678" + bytes((number, 3)) + b"data" for number in range(3)]
# the postprocessors that write a stream, and the preprocessors that read it
CHAINS: dict[str, tuple[Sequence[Named], Sequence[Named]]] = {
    "base64": ([("base64", {}), *LINES], [*LINES, ("base64", {})]),
    "decompress": (
        [("compress", {"algorithm": "gzip"}), ("length-prefixed", {})],
        [("length-prefixed", {}), ("decompress", {})],
    ),
    "gelf-chunking": (LINES, [("gelf-chunking", {})]),
    "length-prefixed": ([("length-prefixed", {})], [("length-prefixed", {})]),
    "multiline": (LINES, [("multiline", {"rule": "java"})]),
    "remove-empty": (LINES, [*LINES, ("remove-empty", {})]),
    "separate": (LINES, LINES),
    "textual-length-prefixed": ([("textual-length-prefixed", {})], [("textual-length-prefixed", {})]),
}


def damaged(stream: bytes, dice: random.Random) -> bytes:
    data = bytearray(stream)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data) + 1)
        data[at : at + dice.randrange(3)] = dice.choice((*WORDS, dice.randbytes(2), b""))
    return bytes(data)


def reads(name: str, dice: random.Random) -> list[bytes]:
    if name == "gelf-chunking":  # each read is a datagram
        return [damaged(chunk, dice) for chunk in dice.sample(CHUNKS, 3)]
    events = [dice.randbytes(dice.randrange(20)).replace(b"\n", b"") for _ in range(3)]
    stream = damaged(written(CHAINS[name][0], events), dice)
    at = dice.randrange(len(stream) + 1)
    return [read for read in (stream[:at], stream[at:]) if read]


def look(name: str, inputs: int) -> tuple[int, int]:
    """How many events left, and how many reasons."""
    chain = incoming(CHAINS[name][1], messages=name == "gelf-chunking")
    dice = random.Random(7)
    left = refused = 0
    for _ in range(inputs):
        given = reads(name, dice)
        events, reasons = events_of(chain, given)
        assert all(reasons), given
        assert sum(map(len, events)) <= 10_000, given
        left += len(events)
        refused += len(reasons)
    return left, refused


@pytest.mark.parametrize("name", CHAINS)
def test_damaged_streams(name: str) -> None:
    look(name, 50)


@pytest.mark.soak
@pytest.mark.parametrize("name", CHAINS)
def test_a_hundred_thousand_damaged_streams(name: str) -> None:
    look(name, INPUTS)


def test_every_preprocessor_is_here() -> None:
    ours = registered().of("walflow")
    assert set(CHAINS) == {name for name in ours if registered()[name].is_preprocessor}
