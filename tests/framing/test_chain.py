"""What one chain writes the other reads, wherever the stream is cut; and what is damaged is refused, never silent."""

import binascii
import gzip
import random
import re
import struct
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.framing.streams import LIMIT, cut, events_of, written
from walflow.errors import WalflowError
from walflow.event import Frames, Framing
from walflow.framing import (
    LINES,
    MESSAGES,
    TEXTUAL_LENGTH_PREFIXED,
    WHOLE,
    BadChainOrder,
    Named,
    frames_of,
    incoming,
    make,
    outgoing,
)
from walflow.framing.length_prefixed import LENGTH_PREFIXED

Pair = tuple[Sequence[str | Named], Sequence[str | Named], st.SearchStrategy[bytes]]  # post-, preprocessors, events

ANY = st.binary(max_size=40)
LINE = ANY.map(lambda event: event.replace(b"\n", b"|"))
FULL_LINE = LINE.filter(bool)


def named(*links: str | Named) -> list[Named]:
    return [(link, {}) if isinstance(link, str) else link for link in links]


def algorithm(name: str) -> Named:
    return ("compress", {"algorithm": name, "level": 1})


def compressed_lines(name: str) -> Pair:
    return (["separate", algorithm(name)], ["decompress", "separate"], LINE)


PAIRS: list[Pair] = [
    (["separate"], ["separate"], LINE),
    (["length-prefixed"], ["length-prefixed"], ANY),
    (["textual-length-prefixed"], ["textual-length-prefixed"], ANY),
    (["base64", "separate"], ["separate", "base64"], ANY),
    (["base64", "length-prefixed"], ["length-prefixed", "base64"], ANY),
    (["separate", "base64"], ["base64", "separate"], LINE),
    (["separate"], ["separate", "remove-empty"], FULL_LINE),
    ([("separate", {"separator": "|"})], [("separate", {"separator": "|"}), "remove-empty"], st.just(b"a\nb")),
    *[compressed_lines(name) for name in ("gzip", "zlib", "xz", "lz4", "zstd")],
    *[([algorithm(name)], ["decompress"], ANY) for name in ("gzip", "zlib", "xz2", "lz4", "zstd")],
    ([algorithm("gzip"), "length-prefixed"], ["length-prefixed", "decompress"], ANY),
    ([algorithm("zstd"), "length-prefixed"], ["length-prefixed", ("decompress", {"algorithm": "zstd"})], ANY),
    (["separate", algorithm("lz4"), "length-prefixed"], ["length-prefixed", "decompress", "separate"], LINE),
    ([algorithm("xz"), "base64", "separate"], ["separate", "base64", "decompress"], ANY),
    (
        [algorithm("gzip"), algorithm("zstd"), "textual-length-prefixed"],
        ["textual-length-prefixed", "decompress", "decompress"],
        ANY,
    ),
    (["separate", ("compress", {"algorithm": "snappy"})], ["decompress", "separate"], LINE),
    ([("compress", {"algorithm": "snappy"}), "length-prefixed"], ["length-prefixed", "decompress"], ANY),
    ([algorithm("br"), "length-prefixed"], ["length-prefixed", ("decompress", {"algorithm": "br"})], ANY),
    ([algorithm("br"), "base64", "separate"], ["separate", "base64", ("decompress", {"algorithm": "br"})], ANY),
    (["separate", "base64", "separate", algorithm("gzip")], ["decompress", "separate", "base64", "separate"], LINE),
    (["length-prefixed", "length-prefixed"], ["length-prefixed", "length-prefixed"], ANY),
    (["length-prefixed", algorithm("gzip"), "base64"], ["base64", "decompress", "length-prefixed"], ANY),
]


@pytest.mark.parametrize(("post", "pre", "event"), PAIRS, ids=lambda chain: str(chain)[:60])
@settings(max_examples=examples(25))
@given(st.data())
def test_wherever_the_stream_is_cut_the_same_events_come(
    post: Sequence[str | Named], pre: Sequence[str | Named], event: st.SearchStrategy[bytes], data: st.DataObject
) -> None:
    events = data.draw(st.lists(event, max_size=6))
    stream = written(named(*post), events)
    assert events_of(incoming(named(*pre)), cut(stream, data)) == (events, [])


@given(st.lists(ANY, min_size=1))
@pytest.mark.parametrize("framing", [LENGTH_PREFIXED, TEXTUAL_LENGTH_PREFIXED, MESSAGES])
def test_frames_are_counted_and_told_apart(framing: Framing, events: list[bytes]) -> None:
    stream = framing.join(events)
    assert framing.payloads(stream) == events
    assert framing.count(stream) == len(events)
    ends = list(framing.index(stream))
    assert [stream[low:high] for low, high in zip([0, *ends], ends, strict=False)] == [
        framing.join([event]) for event in events
    ]
    assert framing.frames(stream) == [framing.join([event]) for event in events]
    assert framing.join(framing.payloads(stream)) == stream


@given(st.lists(LINE, min_size=1), st.data())
@pytest.mark.parametrize("framing", [LINES, make([("separate", {"separator": "|"})]), LENGTH_PREFIXED, MESSAGES])
def test_some_events_are_picked(framing: Framing, events: list[bytes], data: st.DataObject) -> None:
    events = [event.replace(b"|", b"") for event in events]
    numbers = data.draw(st.lists(st.integers(0, len(events) - 1), min_size=1))
    picked = Frames(framing.join(events), len(events), framing).picked(numbers)
    assert picked.data == framing.join([events[number] for number in numbers])
    assert len(picked.payloads()) == picked.count == len(numbers)


@given(st.lists(ANY, min_size=1))
def test_events_are_held_in_lines_where_they_can_be(events: list[bytes]) -> None:
    data, framing = frames_of(events)
    assert framing.payloads(data) == events
    assert framing is (MESSAGES if any(b"\n" in event for event in events) else LINES)


def test_prefixes_are_those_of_others() -> None:
    assert written(named("length-prefixed"), [b"ab", b""]) == struct.pack(">Q2sQ", 2, b"ab", 0)
    assert written(named("textual-length-prefixed"), [b"ab", b""]) == b"2 ab0 "
    assert written(named("base64", "separate"), [b"a\n"]) == binascii.b2a_base64(b"a\n")


def test_plain_chains_are_plain_framings() -> None:
    assert incoming(named("separate")) == ((), LINES, False, False)
    assert incoming([]) == ((), WHOLE, False, False)
    assert incoming([], messages=True) == ((), MESSAGES, True, False)
    assert outgoing(named("separate")) == ((), LINES)
    assert outgoing([]) == ((), WHOLE)
    assert outgoing(named("base64"), messages=True).framing is MESSAGES


def test_messages_are_pieces_of_their_own() -> None:
    """So a damaged datagram costs nothing but itself."""
    chain = incoming(named("decompress"), messages=True)
    one = gzip.compress(b"one")
    events, refused = events_of(chain, [one, one[:-1], b"plain", one])
    assert events == [b"one", b"plain", b"one"]
    assert refused == ["the gzip data ended too early"]


# what is damaged


def length(size: int) -> bytes:
    return struct.pack(">Q", size)


PACKED = gzip.compress(b"a\nb\n" * 1000)
DAMAGED = PACKED[:30] + b"\0\0\0\0" + PACKED[34:]


def framed(*payloads: bytes) -> bytes:
    return b"".join(length(len(payload)) + payload for payload in payloads)


TOO_LARGE = f"exceeds max_event_bytes, {LIMIT}"
OUT_OF_STEP = "where the next event begins is not known any more"
INSIDE = "the stream ended inside an event"

REFUSED = [
    (["length-prefixed"], length(1 << 63) + b"x", [], [f"event of {1 << 63} bytes {TOO_LARGE}: {OUT_OF_STEP}"]),
    (["length-prefixed"], length(LIMIT + 1) + bytes(LIMIT + 1) + framed(b"x"), [b"x"], [f".* {TOO_LARGE}"]),
    (["length-prefixed"], length(2) + b"x", [], [INSIDE]),
    (["length-prefixed"], framed(b"x") + bytes(2), [b"x"], [INSIDE]),
    (["textual-length-prefixed"], b"1 xx 1 y", [b"x"], [f"b'x.*' is no length: {OUT_OF_STEP}"]),
    (["textual-length-prefixed"], b"1 x-1 y", [b"x"], [f"b'-.*' is no length: {OUT_OF_STEP}"]),
    (["textual-length-prefixed"], b"00000000000", [], [f"b'0{{11}}' is no length: {OUT_OF_STEP}"]),
    (["textual-length-prefixed"], b"9999999999 y", [], [f"event of 9999999999 bytes {TOO_LARGE}: {OUT_OF_STEP}"]),
    (["textual-length-prefixed"], b"1048577 " + bytes(LIMIT + 1) + b"1\ty", [b"y"], [f".* {TOO_LARGE}"]),
    (["separate", "base64"], b"YQ==\n!\nYg==\nYg\n", [b"a", b"b"], ["not base64: .*", "not base64: .*"]),
    (["base64", "separate"], b"YQpiCmMK!mIK", [b"a", b"b", b"c"], ["not base64: .*"]),
    (
        ["base64", "separate"],
        b"YQ==Cg==YgpiY",
        [b"a", b"b"],
        ["not base64: the stream ended inside four characters", "the rest of an event is lost"],
    ),
    (["decompress", "separate"], PACKED[:-5], [b"a", b"b"] * 1000, ["the gzip data ended too early"]),
    (
        ["decompress", "separate"],
        PACKED + b"rubbish",
        [b"a", b"b"] * 1000,
        ["what follows the gzip data is none: .*"],
    ),
    (["decompress", "separate"], PACKED + bytes(7) + PACKED, [b"a", b"b"] * 2000, []),
    ([("decompress", {"algorithm": "gzip"}), "separate"], b"plain", [], ["not gzip: error -3 .*"]),
    (["decompress", "separate"], b"plain\nlines", [b"plain", b"lines"], []),
    (["decompress", "separate"], b"\x1f", [b"\x1f"], []),
    (["length-prefixed", "decompress"], framed(PACKED, DAMAGED, PACKED), [b"a\nb\n" * 1000] * 2, ["not gzip: .*"]),
    (
        ["separate", "base64", "separate"],
        b"YWJj\n*\nYQo=\n",
        [b"a"],
        ["not base64: .*", "the rest of an event is lost"],
    ),
]


@pytest.mark.parametrize(("pre", "stream", "events", "reasons"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_what_is_damaged_is_said_and_the_stream_goes_on_where_it_can(
    pre: list[str | Named], stream: bytes, events: list[bytes], reasons: list[str], size: int
) -> None:
    if len(stream) > LIMIT:
        size *= 10_000
    reads = [stream[start : start + size] for start in range(0, len(stream), size)]
    found, refused = events_of(incoming(named(*pre)), reads)
    assert found == events
    assert len(refused) == len(reasons)
    for said, reason in zip(sorted(refused), reasons, strict=True):
        assert re.fullmatch(reason, said), said


def test_damage_in_a_piece_that_is_cut_later_glues_nothing_together() -> None:
    """Of the damaged piece what came before may be there; its last line is not continued by the next piece."""
    rows = [b"%d" % number for number in range(100_000)]
    large = gzip.compress(b"\n".join(rows), 1)
    damaged = large[:-2000] + bytes(10) + large[-1990:]
    chain = incoming(named("length-prefixed", "decompress", "separate"))
    found, refused = events_of(chain, [framed(damaged, gzip.compress(b"last\n"))])
    assert found[-1] == b"last"
    assert set(found[:-1]) <= set(rows)
    assert [reason for reason in refused if "not gzip" in reason]


BOMBS: list[tuple[str, Callable[[int], bytes]]] = [
    (name, lambda size, name=name: written(named(algorithm(name)), [bytes(size)]))  # type: ignore[misc]
    for name in ("gzip", "zlib", "xz", "lz4", "zstd")
]


@pytest.mark.parametrize(("name", "bomb"), BOMBS, ids=[name for name, _ in BOMBS])
def test_a_bomb_is_refused_before_it_is_there(name: str, bomb: Callable[[int], bytes]) -> None:
    data = bomb(64 << 20)
    framed = length(len(data)) + data
    good = written(named(algorithm(name), "length-prefixed"), [b"good"])
    tracemalloc.start()
    alone = events_of(incoming(named("decompress")), [data])
    pieces = events_of(incoming(named("length-prefixed", "decompress")), [framed + good])
    lines = events_of(
        incoming(named("length-prefixed", "decompress", ("separate", {"max_length": 9}), "remove-empty")), [framed]
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert alone == ([], ["event decompresses to more than max_event_bytes, 1048576: what follows cannot be read"])
    assert pieces == ([b"good"], ["event decompresses to more than max_event_bytes, 1048576"])
    assert lines == ([], [f"event of {64 << 20} bytes exceeds max_event_bytes, 9"])
    assert peak < 8 << 20


CHAINS = sorted({str(pre): pre for _, pre, _ in PAIRS}.values(), key=str)


@pytest.mark.parametrize("pre", CHAINS, ids=str)
@settings(max_examples=examples(60))
@given(st.data())
def test_garbage_never_raises(pre: Sequence[str | Named], data: st.DataObject) -> None:
    post = next(post for post, other, _ in PAIRS if other == pre)
    stream = bytearray(written(named(*post), [b"some event", b"another"]))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(stream) - 1), st.integers(0, 255)), max_size=4)):
        stream[at] = byte
    stream += data.draw(st.binary(max_size=20))
    del stream[data.draw(st.integers(0, len(stream))) :]
    events, refused = events_of(incoming(named(*pre)), cut(bytes(stream), data))
    assert all(len(event) <= LIMIT for event in events)
    assert all(refused)


def test_much_garbage_after_every_magic() -> None:
    chance = random.Random(5)
    chain = incoming(named("decompress", "separate"))
    for magic in (b"\x1f\x8b\x08", b"\x78\x9c", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"):
        for _ in range(300):
            events_of(chain, [magic + chance.randbytes(chance.randrange(60))])


# what nobody could read


MISPLACED = [
    (incoming, ["remove-empty", "separate"], 0, "`remove-empty` stands first, and has no pieces to look at"),
    (
        incoming,
        ["separate", "decompress"],
        1,
        "`decompress` behind `separate`: the bytes that it takes may hold the separator",
    ),
    (incoming, ["separate", "remove-empty", "decompress"], 2, "`decompress` behind `separate`"),
    (
        incoming,
        ["separate", "length-prefixed"],
        1,
        "`length-prefixed` behind `separate` would join again what was cut",
    ),
    (incoming, ["separate", "separate"], 1, "`separate` behind `separate` would join again what was cut"),
    (outgoing, [algorithm("gzip"), "separate"], 1, "`separate` behind `compress`: the bytes it gives may hold"),
    (
        outgoing,
        ["length-prefixed", "separate"],
        1,
        "`separate` behind `length-prefixed`: the bytes it gives may hold",
    ),
]


@pytest.mark.parametrize(("make_chain", "chain", "number", "line"), MISPLACED)
def test_orders_that_break_events(
    make_chain: Callable[[list[Named]], object], chain: list[str | Named], number: int, line: str
) -> None:
    with pytest.raises(BadChainOrder) as caught:
        make_chain(named(*chain))
    assert str(caught.value).startswith(line)
    assert caught.value.number == number
    assert caught.value.hint


MISTAKES = [
    (outgoing, ["compress"], "compress wants an algorithm: gzip, zlib, xz, lz4, zstd, snappy, br"),
    (
        outgoing,
        [("compress", {"algorithm": "rar"})],
        "compress has the algorithms gzip, zlib, xz, lz4, zstd, snappy, br, not 'rar'",
    ),
    (
        outgoing,
        [("compress", {"algorithm": "snappy", "level": 1})],
        "compress with snappy has the levels 0 to 0, not 1",
    ),
    (outgoing, [("compress", {"algorithm": "xz", "level": 10})], "compress with xz has the levels 0 to 9, not 10"),
    (
        outgoing,
        [("compress", {"algorithm": "zstd", "level": "9"})],
        "compress with zstd has the levels -7 to 22, not '9'",
    ),
    (incoming, [("decompress", {"level": 1})], "decompress has no key level: it takes algorithm"),
    (
        incoming,
        [("decompress", {"algorithm": "brotli"})],
        "decompress has the algorithms gzip, zlib, xz, lz4, zstd, snappy, br, not 'brotli'",
    ),
    (incoming, [("base64", {"x": 1})], "base64 has no key x: it takes no configuration"),
    (outgoing, [("length-prefixed", {"x": 1})], "length-prefixed has no key x: it takes no configuration"),
    (incoming, ["compress"], "Unknown preprocessor compress"),
    (outgoing, ["remove-empty"], "Unknown postprocessor remove-empty"),
    (make, ["base64"], "Unknown framing base64"),
]


@pytest.mark.parametrize(("make_chain", "chain", "line"), MISTAKES)
def test_mistakes_are_named(make_chain: Callable[[list[Named]], object], chain: list[str | Named], line: str) -> None:
    with pytest.raises(WalflowError) as caught:
        make_chain(named(*chain))
    assert str(caught.value) == line
