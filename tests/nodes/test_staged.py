"""What expands is decoded as far as events are wanted, a turn at a time, and comes whole all the same."""

import asyncio
import gzip
from itertools import pairwise

import pytest

from tests.framing.streams import written
from tests.nodes.world import Taker, World
from walflow.codecs import BINARY, JSON
from walflow.framing import LINES, MESSAGES, incoming
from walflow.nodes.staged import GATHER, ITEM, TURN

DECOMPRESS = incoming([("decompress", {}), ("separate", {})])
LINE = b'{"n":12345678}\n'
MANY = 1_000_000  # lines: 15 MB, of which a few KB come in
SMALL = written([("compress", {"algorithm": "zstd"})], [LINE * MANY])


def test_it_stops_where_the_window_is_full_and_goes_on_as_it_empties() -> None:
    taker, world = Taker(), World()
    out = world.source(taker, framing=DECOMPRESS)
    paused: list[bool] = []
    stream = out.stream({}, pause=lambda: paused.append(True), resume=lambda: paused.append(False))
    stream.feed(SMALL)
    stream.eof(complete=False)
    came = 0
    while out._streams or taker.blocks:
        world.scheduler.run()
        assert out.inflight <= out.window + TURN
        came += sum(block.frames.count for block in taker.blocks)
        blocks, taker.blocks = taker.blocks, []
        for block in blocks:
            block.receipt.ack("f::taker")
    assert came == MANY
    assert out.inflight == 0
    assert paused[:2] == [True, False]
    assert all(now is not before for before, now in pairwise(paused))
    assert not out._streams  # it has ended


def test_nobody_waits_for_more_than_a_turn_of_another() -> None:
    taker, world = Taker(ack=True), World()
    out = world.source(taker, framing=DECOMPRESS)
    large, other = out.stream({}), out.stream({})
    large.feed(SMALL)
    assert sum(map(len, taker.data)) <= TURN + GATHER + len(LINE)
    other.feed(gzip.compress(b"1\n"))
    world.scheduler.run()
    (at,) = [number for number, block in enumerate(taker.blocks) if block.stream == other.id]
    assert sum(map(len, taker.data[:at])) <= 2 * (TURN + GATHER + len(LINE))
    assert sum(block.frames.count for block in taker.blocks) == MANY + 1


def test_others_are_read_between_the_turns_of_one() -> None:
    """Not only heard of: a paused socket is not polled, and what is resumed and paused again at once never is."""
    world = World()
    out = world.source(Taker(ack=True), framing=DECOMPRESS)
    large = out.stream({})
    paused: list[bool] = []
    out.stream({}, pause=lambda: paused.append(True), resume=lambda: paused.append(False))
    large.feed(SMALL)
    world.scheduler.run()
    assert world.count("received_events_total") == MANY
    assert paused == []


@pytest.mark.test
def test_a_bomb_of_nothing_does_not_hold_the_loop() -> None:
    """Empty lines are dropped: nothing comes of it, and yet others have their turn."""
    world = World()
    out = world.source(
        Taker(ack=True), framing=incoming([("decompress", {}), ("separate", {}), ("remove-empty", {})])
    )
    paused: list[bool] = [False]
    stream = out.stream({}, pause=lambda: paused.append(True), resume=lambda: paused.append(False))
    turns = 0

    def other() -> None:
        nonlocal turns
        if paused[-1]:
            turns += 1
            world.scheduler.call_soon(other)

    stream.feed(written([("compress", {"algorithm": "zstd"})], [b"\n" * (TURN * 4)]))
    other()
    world.scheduler.run()
    assert turns == 4 * (1 + ITEM)  # an empty line takes as long as so many bytes
    assert paused == [False, True, False]


async def test_a_source_that_pulls_waits_until_what_it_fed_is_decoded() -> None:
    taker, world = Taker(), World()
    out = world.source(taker, framing=DECOMPRESS)
    stream = out.stream({})
    stream.feed(SMALL)
    ready = asyncio.ensure_future(out.ready())
    seen = 0
    while not ready.done():
        await asyncio.sleep(0)
        world.scheduler.run()
        blocks, taker.blocks = taker.blocks, []
        for block in blocks:
            seen += block.frames.count
            block.receipt.ack("f::taker")
    assert seen == MANY
    stream.eof(complete=True)


def test_what_follows_damage_is_dropped_and_counted_and_the_peer_hung_up_on() -> None:
    good, bad, world = Taker(ack=True), Taker(ack=True), World()
    out = world.source(good, bad, framing=DECOMPRESS)
    calls: list[str] = []
    stream = out.stream({}, broken=lambda: calls.append("broken"))
    stream.feed(gzip.compress(LINE) + b"?")
    stream.feed(b"more")
    stream.feed(b"and more")
    assert calls == ["broken"]
    stream.close()
    assert b"".join(good.data) == LINE
    assert [value["error"] for block in bad.blocks for value in block.values] == [  # type: ignore[index]
        "what follows the gzip data is none: what follows cannot be read",
        "12 bytes after it are dropped",
    ]
    assert world.count("rejected_events_total") == 2


def test_much_that_is_refused_in_one_read_is_one_block() -> None:
    good, bad = Taker(ack=True), Taker(ack=True)
    chain = incoming([("separate", {}), ("base64", {})])
    World().source(good, bad, framing=chain).stream({}).feed(b"MQ==\n!\n" * 1000)
    assert [block.frames.count for block in good.blocks] == [1000]
    assert [block.frames.count for block in bad.blocks] == [1000]


@pytest.mark.parametrize(("events", "framing"), [([b"1", b'"\xff"'], LINES), ([b"[\n1]", b"2"], MESSAGES)])
def test_a_block_names_no_chain(events: list[bytes], framing: object) -> None:
    taker = Taker(ack=True)
    chain = incoming([("length-prefixed", {})])
    World().source(taker, codec=BINARY, framing=chain).stream({}).feed(written([("length-prefixed", {})], events))
    (block,) = taker.blocks
    assert block.frames.framing is framing
    assert block.frames.payloads() == events


def test_an_event_that_is_too_large_only_once_decoded_is_refused() -> None:
    good, bad, world = Taker(ack=True), Taker(ack=True), World()
    out = world.source(good, bad, codec=JSON, framing=incoming([("separate", {}), ("base64", {})]))
    out.max_event_bytes = 9
    lines = written([("base64", {}), ("separate", {})], [b'"1234567"', b'"12345678"', b'"12345678901234567"'])
    out.stream({}).feed(lines)
    assert good.data == [b'"1234567"\n']
    assert world.count("rejected_events_total") == 2
