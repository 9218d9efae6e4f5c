"""What reaches a sink: its own codec and framing, skips, the queue between runs, rejects."""

import asyncio
import struct

import pytest

from tests.nodes.world import Taker, World
from tests.receipts import had_by, known
from walflow import Block, Codec, Frames, Framing, Receipt, StreamId
from walflow.codecs import JSON, JSON_SORTED, STRING
from walflow.framing import LINES, WHOLE, make, outgoing
from walflow.nodes.fanout import Fanout
from walflow.nodes.sink import SinkNode

DEEP = b"[" * 512 + b"]" * 512
PIPED = make([("separate", {"separator": "|"})])


def block(
    data: bytes,
    settled: list[Receipt],
    codec: Codec = JSON,
    framing: Framing = LINES,
    skip: str = "",
    ingest_ns: int = 0,
) -> Block:
    count = framing.count(data)
    owed = Receipt(settled.append, count, delivered=known(count, skip) if skip else None)
    return Block(StreamId("f::source", 1, 1), Frames(data, count, framing), codec, owed, ingest_ns=ingest_ns, meta={})


def served(sink: SinkNode) -> list[Block]:
    got: list[Block] = []
    sink.serve(got.append)
    return got


@pytest.mark.parametrize(
    ("codec", "framing", "data", "written"),
    [
        (JSON, LINES, b'{"b": 1, "a":2}\n', [b'{"b": 1, "a":2}\n']),
        (JSON, PIPED, b'{"b": 1}\n2\n', [b'{"b": 1}|2|']),
        (JSON_SORTED, LINES, b'{"b": 1, "a":2}\n', [b'{"a":2,"b":1}\n']),
        (JSON_SORTED, LINES, b"18446744073709551615\n", [b"18446744073709551615\n"]),
        (STRING, LINES, b'"a b"\n{"a":1}\n', [b'a b\n{"a":1}\n']),
        (JSON, WHOLE, b"1\n2\n", [b"1", b"2"]),
    ],
)
def test_blocks_arrive_as_the_sink_writes_them(
    codec: Codec, framing: Framing, data: bytes, written: list[bytes]
) -> None:
    settled: list[Receipt] = []
    sink = World().sink(codec, framing)
    got = served(sink)
    sink.accept(block(data, settled))
    assert [one.frames.data for one in got] == written
    for one in got:
        sink.ack(one)
    assert had_by(settled[0]) == {"f::sink"}


def test_an_unchanged_block_is_the_same_object() -> None:
    settled: list[Receipt] = []
    sink = World().sink()
    got = served(sink)
    came = block(b"1\n", settled)
    sink.accept(came)
    assert got == [came]
    sink.ack(came)


@pytest.mark.parametrize("codec", [JSON, JSON_SORTED], ids=["unchanged", "written anew"])
def test_with_ingest_ns_each_event_has_the_time_of_its_own_block(codec: Codec) -> None:
    """As in tremor: `u64` in big-endian."""
    settled: list[Receipt] = []
    sink = World().sink(codec, outgoing([("ingest-ns", {}), ("length-prefixed", {})]))
    got = served(sink)
    for ingest_ns in (1, 1_700_000_000_123_456_789):
        sink.accept(block(b'{"a":1}\n2\n', settled, ingest_ns=ingest_ns))
    expected = [
        [struct.pack(">Q", time) + event for event in (b'{"a":1}', b"2")] for time in (1, 1_700_000_000_123_456_789)
    ]
    assert [one.frames.payloads() for one in got] == expected
    for one in got:
        sink.ack(one)


def test_json_over_several_lines_is_made_one_line_where_lines_are_the_framing() -> None:
    settled: list[Receipt] = []
    sink = World().sink(JSON, LINES)
    got = served(sink)
    sink.accept(block(b'{\n "a": 1\n}', settled, framing=WHOLE))
    assert got[0].frames.data == b'{"a":1}\n'
    sink.ack(got[0])


def test_what_cannot_be_encoded_leaves_by_err_and_the_rest_is_written() -> None:
    settled: list[Receipt] = []
    world, err = World(), Taker("f::err")
    sink = world.sink(JSON_SORTED, LINES, err=err)
    got = served(sink)
    sink.accept(block(b'{"a":1}\n1e999\n{"b":2}\n', settled))
    assert got[0].frames.data == b'{"a":1}\n{"b":2}\n'
    assert err.blocks[0].frames.data.endswith(b'"source":"f::sink","stream_id":1,"event":1e999}\n')
    assert not settled
    sink.ack(got[0])
    err.ack_all()
    assert settled[0].cause is None
    assert world.count("rejected_events_total") == 1


REJECTED = {"error": "it is no order", "source": "f::sink", "stream_id": 1}


@pytest.mark.parametrize(
    ("codec", "postprocessors", "told"),
    [
        (JSON, [("separate", {})], [{"event": {"a": [1]}}, {"event": "b"}, {"text": DEEP.decode()}]),
        (STRING, [("length-prefixed", {})], [{"event": '{"a":[1]}'}, {"event": "b"}, {"text": DEEP.decode()}]),
        (JSON, [("compress", {"algorithm": "gzip"}), ("length-prefixed", {})], [{}, {}, {}]),
    ],
    ids=["and nests too deep", "in another codec", "encoded by a postprocessor"],
)
def test_an_event_that_the_connector_rejects_leaves_by_err_with_its_reason(
    codec: Codec, postprocessors: list[tuple[str, dict[str, object]]], told: list[dict[str, object]]
) -> None:
    world, err = World(), Taker("f::err")
    sink = world.sink(codec, outgoing(postprocessors), err=err)
    got = served(sink)
    sink.accept(block(b'{"a": [1]}\n"b"\n%b\n' % DEEP, []))
    sink.reject(got[0], "it is no order")
    assert err.blocks[0].values == [{**REJECTED, **event} for event in told]
    err.ack_all()


def test_an_error_that_is_rejected_again_is_not_sent_round() -> None:
    settled: list[Receipt] = []
    world = World()
    sink = SinkNode("f::sink", world.err("f::sink"), None, None)
    sink.begin(world.context("f::sink"))
    sink._err.target = sink
    sink.serve(lambda came: sink.reject(came, "never"))
    sink.accept(block(b"1\n", settled))
    assert len(settled) == 1
    assert world.count("rejected_events_total") == 2


def test_a_sink_that_has_a_redelivered_block_acks_it_unseen() -> None:
    settled: list[Receipt] = []
    world = World()
    file, tcp = world.sink(name="f::file"), world.sink(name="f::tcp")
    at_file, at_tcp = served(file), served(tcp)
    Fanout([file, tcp]).accept(block(b"1\n", settled, skip="f::file"))
    assert (len(at_file), len(at_tcp)) == (0, 1)
    tcp.ack(at_tcp[0])
    assert had_by(settled[0]) == {"f::file", "f::tcp"}


async def test_take_gives_all_that_waits() -> None:
    settled: list[Receipt] = []
    sink = World().sink()
    sink.accept(block(b"1\n", settled))
    sink.accept(block(b"2\n", settled))
    taken = await sink.take()
    assert [one.frames.data for one in taken] == [b"1\n", b"2\n"]
    waiting = asyncio.ensure_future(sink.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    sink.accept(block(b"3\n", settled))
    taken += await waiting
    for one in taken:
        sink.ack(one)
    assert len(settled) == 3


def test_what_waits_between_two_runs_goes_to_the_next() -> None:
    settled: list[Receipt] = []
    world = World()
    sink = world.sink()
    served(sink)
    sink.end("restarting")
    sink.accept(block(b"1\n", settled))
    sink.begin(world.context("f::sink"))
    got = served(sink)
    assert [one.frames.data for one in got] == [b"1\n"]
    sink.ack(got[0])


def test_what_waits_for_a_run_that_never_comes_fails() -> None:
    settled: list[Receipt] = []
    sink = World().sink()
    sink.end("stopped")
    sink.accept(block(b"1\n", settled))
    sink.abandon()
    assert str(settled[0].cause) == "f::sink has stopped"


def test_what_an_ack_brings_while_it_begins_to_serve_is_taken_too() -> None:
    """A buffer before it sends the next block within the ack of the last; it waited in the queue for ever."""
    world = World()
    sink = world.sink()
    source = world.source(sink)
    left = [b"2\n", b"3\n"]
    taken: list[bytes] = []

    def settled(receipt: Receipt) -> None:
        if left:
            send(left.pop(0))

    def send(data: bytes) -> None:
        receipt = Receipt(settled, 1)
        assert source.send(
            Block(StreamId("f::source", 1, 1), Frames(data, 1, LINES), JSON, receipt, ingest_ns=1, meta={})
        )

    def accept(block: Block) -> None:
        taken.append(block.frames.data)
        sink.ack(block)

    send(b"1\n")
    sink.serve(accept)
    assert taken == [b"1\n", b"2\n", b"3\n"]
    assert sink.waiting == 0
