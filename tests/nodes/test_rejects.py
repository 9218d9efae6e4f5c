"""What is no event leaves by err with its bytes, so that it can be mended and sent again."""

import base64
import gzip
from collections import deque
from collections.abc import Mapping
from typing import cast

import pytest
import structlog
from hypothesis import given, strategies as st
from structlog.testing import capture_logs

from tests.nodes.world import Taker, World
from walflow.codecs import JSON, STRING, make
from walflow.event import Block, Codec, Frames, Origin, StreamId
from walflow.framing import LINES, MESSAGES, incoming
from walflow.nodes.ports import Rejection
from walflow.nodes.rejects import ERROR_META, KEPT_BYTES, REJECTED_TWICE, UNLINKED, ErrPort, RejectedEvents
from walflow.receipt import Receipt


def rejected_block(origin: Origin | None = None) -> Block:
    frames = Frames(b"1\n", 1, LINES)
    receipt = Receipt(lambda _: None, 1)
    return Block(StreamId("f::source", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={}, origin=origin)


def told(taker: Taker) -> list[dict[str, object]]:
    """What the records at err say, without their source."""
    records = [cast("dict[str, object]", value) for block in taker.blocks for value in block.values]
    return [{key: one[key] for key in one if key not in ("source", "stream_id")} for one in records]


@pytest.mark.parametrize(
    ("codec", "line", "shown"),
    [
        ("json", b'{"a":1', {"text": '{"a":1'}),
        ("json", b'"\xff"', {"bytes": "Iv8i"}),
        ("json", "{ä\x00\x1b".encode(), {"text": "{ä\x00\x1b"}),
        ("json", b"", {}),
        ("string", b"a\xc3", {"bytes": "YcM="}),
        ("msgpack", b"\xc1", {"bytes": "wQ=="}),
        ("influx", b"no influx", {"text": "no influx"}),
        ("csv", b'a,"b', {"text": 'a,"b'}),
        ("syslog", b"\xff", {"bytes": "/w=="}),
        ("statsd", b"no statsd", {"text": "no statsd"}),
        ("dogstatsd", b"none", {"text": "none"}),
        ("graphite-plaintext", b"none", {"text": "none"}),
    ],
)
def test_a_line_that_no_codec_can_decode(codec: str, line: bytes, shown: Mapping[str, object]) -> None:
    bad = Taker(ack=True)
    World().source(Taker(ack=True), bad, codec=make(codec)).stream({}).feed(line + b"\n")
    (record,) = told(bad)
    assert record.pop("error")
    assert record == shown


@pytest.mark.parametrize(
    ("chain", "data", "records"),
    [
        (["separate", "base64"], b"bnVsbA==\n%%%\n", [{"text": "%%%"}]),
        (
            ["separate", "base64"],
            base64.b64encode(b"{") + b"\n",
            [{"text": "{"}],
        ),  # of the codec: the bytes that it got
        (
            ["length-prefixed", "decompress"],
            (5).to_bytes(8) + gzip.compress(b"1", mtime=0)[:5],
            [{"bytes": "H4sIAAA="}],
        ),
        (["base64", "separate"], b"MQox$$$$", [{"text": "1"}, {"text": "$$$$"}]),
        (["gelf-chunking"], b"\x1e\x0fshort", [{"text": "\x1e\x0fshort"}]),
    ],
)
def test_what_a_preprocessor_cannot_take(chain: list[str], data: bytes, records: list[dict[str, object]]) -> None:
    bad = Taker(ack=True)
    made = incoming([(name, {}) for name in chain], messages=chain[0] == "gelf-chunking")
    stream = World().source(Taker(ack=True), bad, framing=made).stream({})
    stream.feed_messages([data]) if made.messages else stream.feed(data)
    stream.eof(complete=False)
    found = told(bad)
    assert all(one.pop("error") for one in found)
    assert sorted(map(str, found)) == sorted(map(str, records))


@pytest.mark.parametrize("codec", [JSON, STRING])
def test_a_block_that_a_source_rejects(codec: Codec) -> None:
    """Kafka, MQTT and HTTP judge their messages themselves."""
    bad = Taker(ack=True)
    out = World().source(Taker(ack=True), bad, codec=codec, framing=MESSAGES)
    data = b"\xff{" if codec is STRING else b"{ no"
    frames = Frames(MESSAGES.join([data]), 1, MESSAGES)
    receipt = Receipt(lambda _: None, 1)
    out.reject(Block(out.stream({}).id, frames, codec, receipt, ingest_ns=1, meta={}), "no event")
    assert told(bad) == [{"error": "no event", **({"bytes": "/3s="} if codec is STRING else {"text": "{ no"})}]


@pytest.mark.parametrize("message", [b"%%%", b"ew=="])
def test_a_whole_message_of_which_a_piece_is_refused(message: bytes) -> None:
    out = World().source(Taker(ack=True), framing=incoming([("base64", {})], messages=True))
    pieces = list(out.cut(message))
    assert [(one.event, bool(one.refused)) for one in pieces] == [
        (b"%%%", True) if message == b"%%%" else (b"{", False)
    ]


@pytest.mark.parametrize(("letter", "member"), [("ä", "text"), ("\udcff", "bytes"), ("\x01", "text")])
def test_of_a_large_one_the_first_bytes_are_there(letter: str, member: str) -> None:
    bad = Taker()
    out = World().source(Taker(), bad)
    line = b"x" + letter.encode("utf-8", "surrogateescape") * 200_000
    out.stream({}).feed(line + b"\n")
    (record,) = told(bad)
    assert record["length"] == len(line)
    shown = cast("str", record[member])
    kept = base64.b64decode(shown) if member == "bytes" else shown.encode()
    assert kept == line[: len(kept)]
    assert KEPT_BYTES - 3 <= len(kept) <= KEPT_BYTES
    assert len(bad.data[0]) < out.max_event_bytes / 2
    assert out.inflight >= KEPT_BYTES  # the window counts what is kept
    bad.ack_all()
    assert out.inflight == 0


@pytest.mark.parametrize("more", [0, 1])
def test_only_of_what_is_cut_the_length_is_told(more: int) -> None:
    bad = Taker(ack=True)
    World().source(Taker(), bad).stream({}).feed(b"x" * (KEPT_BYTES + more) + b"\n")
    (record,) = told(bad)
    assert ("length" in record) == bool(more)


@given(st.binary(max_size=200).filter(lambda data: b"\n" not in data))
def test_the_bytes_can_be_had_again(line: bytes) -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    World().source(good, bad).stream({}).feed(line + b"\n")
    for record in told(bad):
        text, binary = record.get("text", ""), record.get("bytes", "")
        assert cast("str", text).encode() + base64.b64decode(cast("str", binary)) == line


def test_many_of_them_leave_in_blocks_within_the_cap() -> None:
    bad, world = Taker(ack=True), World()
    out = world.source(Taker(ack=True), bad)
    out.stream({}).feed((b"{" + b"x" * 9_999 + b"\n") * 100)
    assert len(told(bad)) == 100
    assert all(len(data) <= 256 << 10 for data in bad.data)
    assert out.inflight == 0


def test_each_reason_of_a_block_has_a_line_with_its_number_and_place() -> None:
    world = World()
    rejections: deque[Rejection] = deque()
    rejected = world.metrics.counter("rejected_events_total")
    with capture_logs() as lines:
        port = ErrPort("f::source", None, rejected, structlog.get_logger(), rejections)
        block = Block(
            StreamId("f::source", 1, 1),
            Frames(b"1\n" * 9, 9, LINES),
            JSON,
            Receipt(lambda _: None, 9),
            ingest_ns=1,
            meta={},
            positions=range(11, 20),
        )
        port.take(block, ["a", "b", "a", "c", "d", "e", "f", "f", "a"])
    others = "2 other reasons, the first: e"
    expected = [("a", 3, 11), ("b", 1, 12), ("c", 1, 14), ("d", 1, 15), (others, 3, 16)]
    assert [(line["reason"], line["events"], line["position"]) for line in lines] == expected
    assert [(one.reason, one.events, one.position) for one in rejections] == expected
    assert rejected.value == 9


def test_what_leaves_by_a_linked_err_is_among_the_last_rejections_too() -> None:
    world, err = World(), Taker(ack=True)
    rejections: deque[Rejection] = deque()
    with capture_logs() as lines:
        counter = world.metrics.counter("rejected_events_total")
        port = ErrPort("f::source", err, counter, structlog.get_logger(), rejections)
        port.take(rejected_block(), ["bad"])
    assert ([one.reason for one in rejections], len(err.blocks), lines) == (["bad"], 1, [])


class LogLetters(Taker):
    """The letters of one log."""

    def __init__(self, log: str) -> None:
        super().__init__(ack=True)
        self._log = log

    def takes(self, log: str) -> bool:
        return log == self._log


@pytest.mark.parametrize(("log", "kept"), [("one", [1, 0]), ("other", [0, 1]), ("", [1, 0]), (None, [1, 0])])
def test_a_letter_is_kept_by_the_log_that_the_event_came_from(log: str | None, kept: list[int]) -> None:
    """The first one keeps what came from none of them."""
    world, letters = World(), [LogLetters("one"), LogLetters("other")]
    port = ErrPort("f::sink", None, world.metrics.counter("rejected_events_total"), structlog.get_logger())
    port.letters += letters
    block = rejected_block(Origin(log, 11, 11, 1, held_by=HeldLog()) if log is not None else None)
    port.take(block, ["bad"], RejectedEvents(JSON, [b"1"]))
    assert [len(each.blocks) for each in letters] == kept


class HeldLog:
    """What it is told of events that are given up."""

    path = "/log"
    relaxed = False
    next = 100
    low = 0

    def __init__(self) -> None:
        self.told: list[tuple[int, int, str, str]] = []

    def spans(self) -> Mapping[int, tuple[int, int]]:
        return {}

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        self.told.append((first, last, name, reason))


def test_a_log_is_told_what_is_rejected_for_good_before_it_is_acked() -> None:
    world, log = World(), HeldLog()
    acked: list[int] = []
    receipt = Receipt(lambda _: acked.append(len(log.told)), 3)
    block = Block(
        StreamId("f::source", 1, 1),
        Frames(b"1\n" * 3, 3, LINES),
        JSON,
        receipt,
        ingest_ns=1,
        meta={},
        origin=Origin("log", 11, 19, 1, held_by=log),
        positions=[11, 12, 19],
    )
    name = "f::sink"
    rejected = world.metrics.counter("rejected_events_total")
    with capture_logs():
        ErrPort(name, None, rejected, structlog.get_logger()).take(block, ["a", "b", "c"])
    assert log.told == [(11, 12, name, UNLINKED), (19, 19, name, UNLINKED)]
    assert acked == [2]


def test_of_a_rejected_error_record_too() -> None:
    world, log = World(), HeldLog()
    origin = Origin("log", 11, 11, 1, held_by=log)
    block = Block(
        StreamId("f::source", 1, 1),
        Frames(b"1\n", 1, LINES),
        JSON,
        Receipt(lambda _: None, 1),
        ingest_ns=1,
        meta=ERROR_META,
        origin=origin,
    )
    err = Taker(ack=True)
    with capture_logs():
        ErrPort("f::err", err, world.metrics.counter("rejected_events_total"), structlog.get_logger()).take(
            block, ["a"]
        )
    assert log.told == [(11, 11, "f::err", REJECTED_TWICE)]
    assert err.blocks == []
