"""`generic::batch`: events that go on together, and never so many held that nothing more comes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from connectors.memory import Buffer, Memory
from tests.examples import examples
from tests.operators.flows import Running
from tests.receipts import had_by
from walflow.codecs import JSON
from walflow.event import Block, Frames, Origin, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt

BODY = """
    define operator batch from generic::batch with count = {count}{more} end;
    create operator batch;
    select event from in into batch;
    select event from batch into out;
"""
STREAM = StreamId("main::ticks", 1, 1)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def five() -> Iterator[Running]:
    running = Running(BODY.format(count=5, more=", timeout = 1000000000"))
    yield running
    running.end()
    assert running.outlet.inflight == 0


def sizes(running: Running) -> list[int]:
    return [block.frames.count for block in running.sinks[0].waiting]


def test_so_many_go_on_as_one_block(five: Running) -> None:
    for number in range(4):
        five.give(number)
    assert sizes(five) == []
    five.give(4, 5, 6)
    assert sizes(five) == [5]
    five.give(*range(7, 20))
    assert sizes(five) == [5, 5, 5, 5]
    assert five.sinks[0].got == list(range(20))


def test_time_is_up(five: Running) -> None:
    five.give(1)
    five.world.scheduler.advance(0.9)
    five.give(2)
    assert sizes(five) == []
    five.world.scheduler.advance(0.2)
    assert sizes(five) == [2]
    five.give(3)
    five.world.scheduler.advance(0.9)
    assert sizes(five) == [2]  # its own time, not the rest of the last one's


def test_a_drain_holds_nothing_back(five: Running) -> None:
    five.give(1)
    five.nodes.operators[0].node.drain()
    assert sizes(five) == [1]
    five.give(2)
    assert sizes(five) == [1, 1]


def test_each_block_gets_what_became_of_its_events(five: Running) -> None:
    settled: list[Receipt] = []

    def give(*numbers: int, first: int) -> None:
        frames = Frames(LINES.join([b"%d" % number for number in numbers]), len(numbers), LINES)
        origin = Origin("log", first, first + len(numbers) - 1, first)
        receipt = Receipt(settled.append, len(numbers), first)
        five.nodes.operators[0].node.accept(Block(STREAM, frames, JSON, receipt, ingest_ns=1, meta={}, origin=origin))

    give(1, 2, first=1)
    give(3, 4, first=3)
    give(5, first=5)
    [block] = five.sinks[0].waiting
    assert block.origin == Origin("log", 1, 5, 5)
    five.sinks[0].fail(done=3)
    assert [(receipt.ref, receipt.cause is None, receipt.done) for receipt in settled] == [
        (1, True, 2),
        (3, False, 1),
        (5, False, 0),
    ]
    assert had_by(settled[1]) == set()


def test_blocks_of_two_chunks_of_a_log_stay_two(five: Running) -> None:
    """A position stands for one event in its chunk only."""
    for first, count, term in ((1, 2, 7), (3, 3, 8)):
        frames = Frames(b"".join(b"%d\n" % number for number in range(count)), count, LINES)
        origin = Origin("log", first, first + count - 1, 1, term)
        receipt = Receipt(lambda _: None, count)
        five.nodes.operators[0].node.accept(Block(STREAM, frames, JSON, receipt, ingest_ns=1, meta={}, origin=origin))
    assert sizes(five) == [2, 3]
    assert [block.origin and block.origin.term for block in five.sinks[0].waiting] == [7, 8]


def test_what_cannot_be_one_block_goes_on_as_several(five: Running) -> None:
    other = five.outlet.stream({"peer": 2})
    five.give(1)
    other.emit([2])
    other.emit([3])
    five.give(4, 5)
    assert five.sinks[0].got == [1, 2, 3, 4, 5]
    assert sizes(five) == [1, 2, 2]


def test_it_never_holds_what_its_sources_wait_for(five: Running) -> None:
    running = Running(BODY.format(count=1000, more=""))
    running.outlet.window_events = 20  # read_count of a log upstream
    for number in range(25):
        running.give(number)
    assert sizes(running) == [10, 10]
    running.outlet.window_events = None
    running.outlet.window = 100
    running.give("x" * 60)
    assert sum(sizes(running)) == 26
    running.end()


def test_an_event_that_is_held_keeps_the_block_it_was_picked_out_of() -> None:
    body = """
    define operator batch from generic::batch with count = 1000 end;
    create operator batch;
    select event from in where event == 0 into batch;
    select event from batch into rare;
    select event from in where event > 0 into all;
    """
    running = Running(body, ("rare", "all"))
    running.outlet.window = 100
    rare, all_ = running.sinks
    while not running.source.gate.shut:
        running.give(0, 11111111)
        all_.ack()
    assert rare.waiting == []  # what comes in the same breath goes along
    running.world.scheduler.advance(0)
    [block] = rare.waiting
    assert block.frames.count == len(all_.got)
    rare.ack()
    assert running.outlet.inflight == 0
    assert not running.source.gate.shut
    running.end()


FOUR = """
    define operator batch from generic::batch with count = 1000 end;
    define operator log from qos::wal with {bounds} end;
    create operator log;
    create operator a from batch;
    create operator b from batch;
    create operator c from batch;
    create operator d from batch;
    select event from in into log;
    select event from log where event % 4 == 0 into a;
    select event from log where event % 4 == 1 into b;
    select event from log where event % 4 == 2 into c;
    select event from log where event % 4 == 3 into d;
    select event from a into out;
    select event from b into out;
    select event from c into out;
    select event from d into out;
"""


@pytest.mark.parametrize("bounds", ["max_elements = 1000, read_count = 20", "max_elements = 20", "max_bytes = 50"])
def test_several_that_hold_the_same_source_do_not_stop_it(bounds: str) -> None:
    running = Running(FOUR.format(bounds=bounds))
    [log] = [nodes for nodes in running.nodes.connectors if nodes.plan.id.name == "p/log"]
    assert isinstance(log.plan.connector, Memory)
    log.sink.begin(running.world.context("main::p/log"))
    buffer = Buffer(log.plan.connector, log.sink, log.source.begin(running.world.context("main::p/log")))
    buffer.buffering.start()
    for number in range(100):
        running.give(number)
    for _ in range(100):
        running.world.scheduler.advance(0)
        running.sinks[0].ack()
    assert len(running.sinks[0].got) >= 80
    for operator in running.nodes.operators:
        operator.node.drain()
    running.sinks[0].ack()
    assert sorted(running.sinks[0].got, key=str) == sorted(range(100), key=str)
    asyncio.run(buffer.buffering.close())
    running.end()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_order_count_and_outcomes_whatever_comes(blocks: list[int], count: int, seed: int) -> None:
    running, chance, given_so_far = Running(BODY.format(count=count, more="")), Random(seed), 0
    for size in blocks:
        running.give(*range(given_so_far, given_so_far + size))
        given_so_far += size
        if chance.random() < 0.3:
            running.sinks[0].fail(done=chance.randint(0, count))
    running.nodes.operators[0].node.drain()
    assert running.sinks[0].got == list(range(given_so_far))
    assert all(block.frames.count <= count for block in running.sinks[0].waiting)
    running.sinks[0].ack()
    assert running.outlet.inflight == 0
    running.end()
