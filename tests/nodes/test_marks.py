"""A source that is told what became of what it fed."""

import pytest

from tests.nodes.world import Taker, World
from walflow.codecs import STRING
from walflow.contract import Marked
from walflow.nodes.ingress import TURN_EVENTS


def test_a_mark_is_settled_once_all_before_it_is() -> None:
    taker, told = Taker(), list[Marked]()
    stream = World().source(taker, codec=STRING).stream({}, marks=True)
    stream.feed(b"1\n2\n")
    stream.feed(b"3\nhalf")
    stream.mark(told.append)
    first, second = taker.blocks
    second.receipt.ack()
    assert told == []
    first.receipt.ack()
    assert told == [Marked(4, None)]


def test_marks_are_settled_in_the_order_of_the_outcomes() -> None:
    taker, told = Taker(), list[int]()
    stream = World().source(taker, codec=STRING).stream({}, marks=True)
    for number in range(3):
        stream.feed(b"%d\n" % number)
        stream.mark(lambda _, number=number: told.append(number))  # type: ignore[misc]
    for number in (2, 0, 1):
        taker.blocks[number].receipt.ack()
    assert told == [2, 0, 1]


def test_nothing_was_fed_so_nothing_is_waited_for() -> None:
    told = list[Marked]()
    stream = World().source(Taker(), codec=STRING).stream({}, marks=True)
    stream.feed(b"half")
    stream.mark(told.append)
    assert told == [Marked(4, None)]


def test_what_fails_is_told_and_not_counted_as_lost() -> None:
    world, taker, told = World(), Taker(), list[Marked]()
    out = world.source(taker, codec=STRING)
    stream = out.stream({}, marks=True)
    stream.feed(b"1\n")
    stream.feed(b"2\n")
    stream.mark(told.append)
    cause = OSError("the peer is gone")
    taker.blocks[0].receipt.fail(cause)
    taker.blocks[1].receipt.ack()
    assert told == [Marked(0, cause)]
    assert (world.count("lost_events_total"), out.inflight) == (0, 0)


def test_what_does_not_decode_is_settled_where_err_leads() -> None:
    errors, told = Taker(), list[Marked]()
    stream = World().source(Taker(ack=True), errors).stream({}, marks=True)
    stream.feed(b'{"a":1}\nno json\n')
    stream.mark(told.append)
    assert told == []
    errors.blocks[0].receipt.ack()
    assert told == [Marked(0, None)]


@pytest.mark.parametrize("more", [b"", b"more"])
def test_an_event_that_is_too_large_has_not_ended_either(more: bytes) -> None:
    told = list[Marked]()
    out = World().source(Taker(ack=True), codec=STRING)
    out.max_event_bytes = 10
    stream = out.stream({}, marks=True)
    stream.feed(b"1\n" + b"x" * 20)
    stream.feed(more)
    stream.mark(told.append)
    assert told == [Marked(20 + len(more), None)]


def test_a_mark_waits_for_the_turns_before_it() -> None:
    world, taker, told = World(), Taker(ack=True), list[Marked]()
    stream = world.source(taker, codec=STRING).stream({}, marks=True)
    stream.feed(b"\n" * (3 * TURN_EVENTS) + b"half")
    stream.mark(told.append)
    assert told == []
    world.scheduler.run()
    assert told == [Marked(4, None)]


def test_behind_the_end_the_last_event_is_among_them() -> None:
    taker, told = Taker(), list[Marked]()
    stream = World().source(taker, codec=STRING).stream({}, marks=True)
    stream.feed(b"half")
    stream.eof(complete=True)
    stream.mark(told.append)
    assert (taker.data, told) == ([b"half\n"], [])
    taker.blocks[0].receipt.ack()
    assert told == [Marked(0, None)]


def test_abandoned_the_half_of_an_event_is_no_error() -> None:
    world, errors = World(), Taker(ack=True)
    out = world.source(Taker(ack=True), errors, codec=STRING)
    stream = out.stream({}, marks=True)
    stream.feed(b"half")
    stream.abandon()
    assert (errors.blocks, out.inflight) == ([], 0)
