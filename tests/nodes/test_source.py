"""Bytes to blocks: framing, limits, the window, err, and what becomes of each receipt."""

import gzip

import orjson
import pytest
from hypothesis import given, strategies as st

from tests.nodes.world import Taker, World
from walflow.codecs import JSON, STRING
from walflow.event import Block, Codec, Frames, StreamId
from walflow.framing import LINES, WHOLE, incoming
from walflow.nodes.ingress import TURN_EVENTS
from walflow.receipt import Receipt


def errors(taker: Taker) -> list[object]:
    return [value for block in taker.blocks for value in block.values]


def test_a_read_of_lines_is_one_block_with_the_very_bytes() -> None:
    taker = Taker(ack=True)
    out = World().source(taker)
    data = b'{"a":1}\n{"a":2}\n'
    out.stream({"peer": "x"}).feed(data)
    assert taker.blocks[0].frames.data is data
    assert taker.blocks[0].frames.count == 2
    assert taker.blocks[0].meta == {"peer": "x"}
    assert out.inflight == 0


def test_half_a_line_waits_for_the_rest() -> None:
    taker = Taker(ack=True)
    stream = World().source(taker).stream({})
    for byte in b'{"a":1}\n{"b"':
        stream.feed(bytes([byte]))
    assert taker.data == [b'{"a":1}\n']


def test_streams_do_not_mix_and_have_numbers_of_their_own() -> None:
    taker = Taker(ack=True)
    out = World().source(taker)
    first, second = out.stream({}), out.stream({})
    first.feed(b'{"a"')
    second.feed(b'{"b":2}\n')
    first.feed(b":1}\n")
    assert taker.data == [b'{"b":2}\n', b'{"a":1}\n']
    assert [block.stream for block in taker.blocks] == [second.id, first.id]
    assert first.id.run == second.id.run == out.run


def test_a_new_run_has_another_number() -> None:
    world = World()
    runs = {world.source(Taker()).run for _ in range(100)}
    assert len(runs) == 100


def test_garbage_leaves_by_err_and_the_rest_goes_on() -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    world = World()
    out = world.source(good, bad)
    stream = out.stream({})
    stream.feed(b'{"a":1}\n{nonsense\n\n{"a":2}\n')
    assert good.data == [b'{"a":1}\n{"a":2}\n']
    reasons = errors(bad)
    assert [set(reason) for reason in reasons] == [  # type: ignore[call-overload]
        {"error", "source", "stream_id", "text"},
        {"error", "source", "stream_id"},  # the line is empty
    ]
    assert all(reason["source"] == "f::source" and reason["stream_id"] == 1 for reason in reasons)  # type: ignore[index]
    assert world.count("rejected_events_total") == 2
    assert out.inflight == 0


def test_alternating_garbage_makes_one_block_of_each() -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    World().source(good, bad).stream({}).feed(b'{"a":1}\nx\n' * 1000)
    assert [block.frames.count for block in good.blocks] == [1000]
    assert [block.frames.count for block in bad.blocks] == [1000]


def test_without_a_link_errors_are_counted_and_settled() -> None:
    world = World()
    out = world.source(Taker())
    out.stream({}).feed(b"x\n")
    assert world.count("rejected_events_total") == 1
    assert out.inflight == 0


@pytest.mark.parametrize("cut", [1, 7, 100, 1000])
def test_an_event_over_the_limit_is_refused_and_the_stream_goes_on_behind_it(cut: int) -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    out = World().source(good, bad)
    out.max_event_bytes = 100
    stream = out.stream({})
    data = b'{"a":1}\n"' + b"x" * 500 + b'"\n{"a":2}\n' + b'"' + b"y" * 98 + b'"\n'
    for start in range(0, len(data), cut):
        stream.feed(data[start : start + cut])
    assert b"".join(good.data) == b'{"a":1}\n{"a":2}\n"' + b"y" * 98 + b'"\n'
    (error,) = errors(bad)
    assert "exceeds max_event_bytes, 100" in error["error"]  # type: ignore[index]


def test_an_endless_event_keeps_no_memory() -> None:
    bad = Taker(ack=True)
    out = World().source(Taker(), bad)
    out.max_event_bytes = 1000
    stream = out.stream({})
    for _ in range(1000):
        stream.feed(b"x" * 1000)
    assert len(stream._tail) <= 2000
    stream.feed(b"\n")
    assert [error["error"] for error in errors(bad)] == [  # type: ignore[index]
        "event of 1000001 bytes exceeds max_event_bytes, 1000"
    ]


def test_blocks_have_at_most_4096_events_and_256_kib() -> None:
    taker, world = Taker(ack=True), World()
    stream = world.source(taker).stream({})
    stream.feed(b"1\n" * 10_000)
    world.scheduler.run()
    assert [block.frames.count for block in taker.blocks] == [4096, 4096, 1808]
    taker.blocks.clear()
    stream.feed((b'"' + b"x" * 997 + b'"\n') * 1000)
    assert all(len(data) <= 256 << 10 for data in taker.data)
    assert sum(block.frames.count for block in taker.blocks) == 1000


@pytest.mark.parametrize("codec", [JSON, STRING])
def test_a_read_of_many_events_has_turns(codec: Codec) -> None:
    """Its own source is paused meanwhile, and no other; what ends the stream comes behind it."""
    good, bad, world = Taker(ack=True), Taker(ack=True), World()
    out = world.source(good, bad, codec=codec)
    paused: list[bool] = []
    others: list[bool] = []
    out.stream({}, pause=lambda: others.append(True), resume=lambda: others.append(False))
    stream = out.stream({}, pause=lambda: paused.append(True), resume=lambda: paused.append(False))
    stream.feed(b"1\n" * TURN_EVENTS + b"\n" * (3 * TURN_EVENTS) + b"2\n3")
    assert good.data == [b"1\n" * TURN_EVENTS]
    assert paused == [True]
    assert not out.quiet
    stream.feed(b"\n4\n")
    stream.reject("this")
    stream.eof(complete=True)
    world.scheduler.run()
    assert out.quiet
    assert paused == [True, False]
    assert others == []
    assert not [each for each in out._streams._open.values() if each is stream]
    lines = b"".join(good.data).split()
    assert [lines[0], *lines[TURN_EVENTS:]] == [b"1", b"2", b"3", b"4"]
    assert world.count("received_events_total") + world.count("rejected_events_total") == 4 * TURN_EVENTS + 4


def test_one_of_all_that_have_much_has_its_turn() -> None:
    taker, world = Taker(ack=True), World()
    out = world.source(taker)
    streams = [out.stream({}) for _ in range(3)]
    for stream in streams:
        stream.feed(b"1\n" * (3 * TURN_EVENTS))
    world.scheduler.run()
    assert [block.stream for block in taker.blocks] == [stream.id for stream in streams] * 3


def test_once_its_scheduler_is_over_nobody_waits_for_a_turn() -> None:
    """What was sent may still be settled."""
    taker, world = Taker(), World()
    out = world.source(taker)
    out.stream({}).feed(b"1\n" * (2 * TURN_EVENTS))
    out.end_turns()
    world.scheduler.run()
    assert sum(block.frames.count for block in taker.blocks) == TURN_EVENTS
    assert not out.quiet
    taker.ack_all()
    assert out.quiet


def test_a_turn_in_which_the_run_ends_is_the_last() -> None:
    world = World()
    out = world.source(Taker())
    made: list[int] = []
    out.next_turn(out.end_turns)
    out.next_turn(lambda: made.append(1))
    world.scheduler.run()
    assert made == []
    assert out.quiet


def test_what_was_read_comes_though_the_window_is_full() -> None:
    """As it did before there were turns: a drain waits for all of it."""
    taker, world = Taker(), World()
    out = world.source(taker)
    out.window = TURN_EVENTS
    paused: list[bool] = []
    stream = out.stream({}, pause=lambda: paused.append(True), resume=lambda: paused.append(False))
    stream.feed(b"1\n" * (3 * TURN_EVENTS))
    world.scheduler.run()
    assert sum(block.frames.count for block in taker.blocks) == 3 * TURN_EVENTS
    assert paused == [True]
    taker.ack_all()
    assert paused == [True, False]


def test_errors_count_as_what_they_are() -> None:
    """An empty line has no byte, what is said of it has some hundred."""
    good, bad = Taker(), Taker()
    out = World().source(good, bad)
    out.stream({}).feed(b"\n" * 1000)
    size = sum(map(len, bad.data))
    assert size // 2 < out.inflight < size * 2
    bad.ack_all()
    assert out.inflight == 0


def test_the_window_pauses_and_resumes_every_stream() -> None:
    taker = Taker()
    out = World().source(taker)
    out.window = 100
    calls: list[str] = []
    first = out.stream({}, pause=lambda: calls.append("pause 1"), resume=lambda: calls.append("resume 1"))
    out.stream({}, pause=lambda: calls.append("pause 2"), resume=lambda: calls.append("resume 2"))
    first.feed(b'"' + b"x" * 60 + b'"\n')
    assert calls == []
    first.feed(b'"' + b"x" * 60 + b'"\n')
    assert calls == ["pause 1", "pause 2"]
    taker.blocks[0].receipt.ack()
    assert calls == ["pause 1", "pause 2"]
    taker.blocks[1].receipt.ack()
    assert calls == ["pause 1", "pause 2", "resume 1", "resume 2"]


def test_a_stream_that_opens_behind_a_shut_gate_starts_paused() -> None:
    world = World()
    out = world.source(Taker())
    sink = world.sink()
    sink.gates.append(out.gate)
    sink.trigger("disk full")
    calls: list[str] = []
    out.stream({}, pause=lambda: calls.append("pause"), resume=lambda: calls.append("resume"))
    sink.restore()
    assert calls == ["pause", "resume"]


def test_one_sinks_restore_does_not_release_anothers_trigger() -> None:
    world = World()
    out = world.source(Taker())
    file, tcp = world.sink(name="f::file"), world.sink(name="f::tcp")
    file.gates.append(out.gate)
    tcp.gates.append(out.gate)
    file.trigger("disk full")
    tcp.trigger("peer gone")
    tcp.restore()
    assert out.gate.reasons == {"f::file": "disk full"}
    file.restore()
    assert not out.gate.shut


@pytest.mark.parametrize(
    ("codec", "tail", "complete", "delivered"),
    [
        (JSON, b'{"a":1}', False, True),
        (JSON, b"12", False, False),  # of 123?
        (JSON, b"12", True, True),
        (JSON, b'{"a":', False, False),
        (STRING, b"half a li", False, False),
        (STRING, b"the last line", True, True),
    ],
)
def test_the_end_of_a_stream_inside_an_event(codec: object, tail: bytes, complete: bool, delivered: bool) -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    stream = World().source(good, bad, codec=codec).stream({})  # type: ignore[arg-type]
    stream.feed(tail)
    stream.eof(complete=complete)
    assert good.data == ([tail + b"\n"] if delivered else [])
    assert len(errors(bad)) == (not delivered)


def test_a_connection_that_breaks_inside_an_event_says_so() -> None:
    bad = Taker(ack=True)
    stream = World().source(Taker(), bad).stream({})
    stream.feed(b'{"a":1}')
    stream.close()
    error = "the stream broke off inside an event"
    assert errors(bad) == [{"error": error, "source": "f::source", "stream_id": 1, "text": '{"a":1}'}]


def test_values_become_json_lines() -> None:
    taker = Taker(ack=True)
    World().source(taker).stream({}).emit([{"id": 1}, {"id": 2}])
    assert taker.data == [b'{"id":1}\n{"id":2}\n']


def test_without_a_framing_each_read_is_an_event() -> None:
    taker = Taker(ack=True)
    stream = World().source(taker, framing=WHOLE).stream({})
    stream.feed(b'{"a":\n1}')
    stream.feed(b"[1]")
    assert [block.values for block in taker.blocks] == [[{"a": 1}], [[1]]]


@pytest.mark.parametrize(
    ("read", "cut"),
    [
        (b'{"a":1}\n{"a":2}\n', True),
        (b'{"a":1}\r\n{"a"', True),
        (b'":1}\n{"a":2}\n', True),
        (b'{"a":1}x\n', False),
        (b'{\n "a": x\n}', False),
        (b"x\ny\n", False),
    ],
)
def test_a_read_that_holds_several_lines_says_how_a_stream_is_cut(read: bytes, cut: bool) -> None:
    bad = Taker("f::err", ack=True)
    World().source(Taker(), bad, framing=WHOLE).stream({}).feed(read)
    (record,) = errors(bad)
    assert str(record["error"]).startswith("not JSON: ")  # type: ignore[index]
    assert ('`preprocessors = ["separate"]`' in str(record["error"])) is cut  # type: ignore[index]


def sent(data: bytes, settled: list[Receipt]) -> Block:
    owed = Receipt(settled.append, 1)
    return Block(StreamId("f::log", 1, 1), Frames(data, 1, LINES), JSON, owed, ingest_ns=0, meta={})


def test_send_refuses_beyond_the_window_and_calls_when_it_may_go_on() -> None:
    taker, settled, calls = Taker(), list[Receipt](), list[str]()
    out = World().source(taker)
    out.window = 10
    out.on_ready(lambda: calls.append("ready"))
    assert out.send(sent(b'"larger than the window"\n', settled))
    refused = sent(b"1\n", settled)
    assert not out.send(refused)
    assert calls == []
    taker.ack_all()
    assert calls == ["ready"]
    assert len(settled) == 1
    refused.receipt.ack()


def test_receipts_of_an_earlier_run_are_void() -> None:
    world, taker, settled = World(), Taker(), list[Receipt]()
    out = world.source(taker)
    out.send(sent(b"1\n", settled))
    out._node.end()
    again = out._node.begin(world.context("f::source"))
    taker.ack_all()
    assert settled == []
    assert again.inflight == 0


@given(
    st.lists(
        st.sampled_from([b'{"a":1}\n', b"x\n", b"\n", b'"\xff"\n', b"12\n", b'{"long":"' + b"y" * 90 + b'"}\n'])
    ),
    st.data(),
)
def test_every_event_has_exactly_one_way_out_however_the_bytes_are_cut(
    lines: list[bytes], data: st.DataObject
) -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    out = World().source(good, bad)
    out.max_event_bytes = 80
    stream = out.stream({})
    whole = b"".join(lines)
    at = 0
    while at < len(whole):
        size = data.draw(st.integers(1, 40))
        stream.feed(whole[at : at + size])
        at += size
    accepted = [line for line in lines if len(line) <= 81 and valid(line)]
    assert b"".join(good.data) == b"".join(accepted)
    assert len(errors(bad)) == len(lines) - len(accepted)
    assert out.inflight == 0


def valid(line: bytes) -> bool:
    try:
        orjson.loads(line[:-1])
    except orjson.JSONDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("chain", "message", "events"),
    [
        ([], b"one\ntwo", [b"one\ntwo"]),
        ([("separate", {})], b"one\ntwo", [b"one", b"two"]),
        ([("decompress", {}), ("separate", {})], gzip.compress(b"one\n\ntwo\n", mtime=0), [b"one", b"", b"two"]),
        ([("base64", {})], b"b25l", [b"one"]),
        ([("separate", {}), ("base64", {})], b"b25l\n!\n", [b"one", "not base64: only base64 data is allowed"]),
    ],
)
def test_a_whole_message_is_cut_and_nothing_is_sent(
    chain: list[tuple[str, dict[str, object]]], message: bytes, events: list[bytes | str]
) -> None:
    taker = Taker()
    out = World().source(taker, framing=incoming(chain, messages=True))
    found = [cut.refused or cut.event for cut in out.cut(message) if cut.refused or cut.event is not None]
    assert found == events
    assert taker.blocks == []


def test_what_is_not_wanted_of_a_message_is_not_decoded() -> None:
    bomb = gzip.compress(b"\n" * 100_000_000, mtime=0)
    out = World().source(Taker(), framing=incoming([("decompress", {}), ("separate", {})], messages=True))
    sizes = (cut.size for cut in out.cut(bomb))
    assert sum(next(sizes) for _ in range(10)) < 1 << 20


@pytest.mark.parametrize(("data", "event"), [(b'{"a":1}\n', {"a": 1}), (b"no json\n", None)])
def test_what_a_connector_rejects_is_a_record_also_if_it_cannot_be_decoded(data: bytes, event: object) -> None:
    err = Taker(ack=True)
    out = World().source(Taker(), err)
    receipt = Receipt(lambda _: None, 1)
    block = Block(StreamId("f::source", 1, 1), Frames(data, 1, LINES), JSON, receipt, ingest_ns=1, meta={})
    out.reject(block, "why")
    assert [one.get("event") for one in errors(err)] == [event]  # type: ignore[attr-defined]


def test_of_the_events_that_a_connector_rejects_one_that_cannot_be_decoded_costs_no_other_its_record() -> None:
    err = Taker(ack=True)
    out = World().source(Taker(), err)
    receipt = Receipt(lambda _: None, 3)
    frames = Frames(b"1\nno JSON\n3\n", 3, LINES)
    out.reject(Block(StreamId("f::source", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={}), "why")
    assert [one.get("event") for one in errors(err)] == [1, None, 3]  # type: ignore[attr-defined]
