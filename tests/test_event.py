"""Receipts settle once, with the right cause, count and set of sinks; frames and blocks split without loss."""

import gc
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tests.receipts import had_by, known
from walflow import Block, Frames, Origin, Receipt, StreamId
from walflow.codecs import JSON
from walflow.framing import LINES

LOST = ConnectionError("gone")


def receipt(count: int = 10) -> tuple[Receipt, list[Receipt]]:
    settled: list[Receipt] = []
    return Receipt(settled.append, count), settled


def lines(count: int) -> Frames:
    return Frames(b"".join(b'{"id":%d}\n' % number for number in range(count)), count, LINES)


def block(count: int = 10, origin: Origin | None = None) -> tuple[Block, list[Receipt]]:
    owed, settled = receipt(count)
    made = Block(StreamId("f::s", 1, 1), lines(count), JSON, owed, ingest_ns=1, meta={}, origin=origin)
    return made, settled


def test_an_ack_settles_once_and_names_the_sink() -> None:
    owed, settled = receipt()
    owed.ack("file")
    assert settled == [owed]
    assert (owed.cause, owed.done, had_by(owed)) == (None, 10, {"file"})


def test_a_fan_out_settles_when_every_copy_has_an_outcome() -> None:
    owed, settled = receipt()
    owed.fork(2)
    owed.ack("file")
    owed.fail(LOST, 4, "tcp")
    assert not settled
    owed.ack("spark")
    assert settled == [owed]
    assert (owed.cause, owed.done, had_by(owed)) == (LOST, 4, {"file", "spark"})


def test_a_sink_that_acked_one_copy_and_failed_another_must_see_the_block_again() -> None:
    owed, _ = receipt()
    owed.fork(1)
    owed.ack("file")
    owed.fail(LOST, 0, "file")
    assert had_by(owed) == frozenset()


def test_a_copy_that_no_sink_failed_spares_those_that_have_theirs() -> None:
    owed, _ = receipt()
    owed.fork(1)
    owed.ack("file")
    owed.fail(LOST)
    assert had_by(owed) == {"file"}
    assert owed.lacking == 10


def test_sinks_skipped_this_time_stay_delivered() -> None:
    settled: list[Receipt] = []
    owed = Receipt(settled.append, 3, delivered=known(3, "file"))
    owed.fork(1)
    owed.ack("file")
    owed.fail(LOST, 0, "tcp")
    assert had_by(owed) == {"file"}


@pytest.mark.parametrize(
    ("outcomes", "done"),
    [
        (["ack", "ack", "ack"], 10),
        (["ack", "ack", 1], 8),
        (["ack", 2, "ack"], 5),
        ([0, "ack", "ack"], 0),
        (["ack", 1, 0], 4),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_parts_of_a_split_say_how_much_of_the_front_is_delivered(
    outcomes: list[str | int], done: int, order: tuple[int, ...]
) -> None:
    owed, settled = receipt()
    parts = owed.split([3, 4, 3])
    for number in order:
        outcome = outcomes[number]
        if isinstance(outcome, int):
            parts[number].fail(LOST, outcome, "tcp")
        else:
            parts[number].ack("tcp")
    assert settled == [owed]
    assert owed.done == done
    assert (owed.cause is None) == (done == 10)
    assert had_by(owed) == ({"tcp"} if done == 10 else frozenset())


def test_of_events_that_were_picked_out_exactly_those_that_failed_are_lacking() -> None:
    owed, settled = receipt()
    owed.fork(1)
    picked, rest = owed.pick([0, 3, 5, 9]), owed.pick([1, 2, 4, 6, 7, 8])
    rest.ack("file")
    picked.fail(LOST, 3, "file")
    assert settled == [owed]
    assert (owed.done, owed.lacking) == (9, 1)
    assert owed.outcome().has == {"file": 0b0111111111}


def test_a_receipt_collected_unsettled_fails_its_block_and_warns() -> None:
    made, settled = block()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del made
        gc.collect()
    assert [str(one.message) for one in caught] == ["a receipt of 10 events was collected unsettled"]
    assert len(settled) == 1
    assert settled[0].done == 0
    assert had_by(settled[0]) == frozenset()


def test_a_copy_dropped_after_others_acked_fails_too() -> None:
    made, settled = block()
    made.receipt.fork(1)
    made.receipt.ack("file")
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        del made
        gc.collect()
    assert settled[0].cause is not None


def test_a_receipt_that_was_collected_before_its_parts_settles_once() -> None:
    def half_of_it_failed(part: Receipt) -> None:  # as a round robin does
        whole = part.ref
        assert isinstance(whole, Block)
        first, second = whole.split([1, 1])
        first.receipt.ack("file")
        second.receipt.join(part)

    made, settled = block(2)
    made.receipt.ref = Receipt(half_of_it_failed, 1, made)  # a circle: both are garbage at once
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del made
        gc.collect()
    assert len(caught) == 2
    assert len(settled) == 1


def test_parts_of_a_block_carry_their_positions() -> None:
    made, settled = block(10, Origin("log", 100, 109, 90))
    first, second = made.split([4, 6])
    assert (first.origin, second.origin) == (Origin("log", 100, 103, 90), Origin("log", 104, 109, 90))
    assert first.frames.data + second.frames.data == made.frames.data
    assert second.values == [{"id": number} for number in range(4, 10)]
    first.receipt.ack("file")
    second.receipt.fail(LOST, 1, "file")
    assert settled[0].done == 5


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    max_bytes=st.integers(1, 120),
    max_events=st.integers(1, 20),
)
def test_caps_hold_and_nothing_is_lost(sizes: list[int], max_bytes: int, max_events: int) -> None:
    frames = Frames(LINES.join([b"x" * size for size in sizes]), len(sizes), LINES)
    parts = frames.parts(frames.sizes(max_bytes, max_events))
    assert b"".join(part.data for part in parts) == frames.data
    assert sum(part.count for part in parts) == frames.count
    for part in parts:
        assert LINES.count(part.data) == part.count
        assert part.count <= max_events
        assert len(part.data) <= max_bytes or part.count == 1


@given(st.integers(1, 30), st.data())
def test_a_slice_is_the_events_it_names(count: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    assert lines(count).slice(start, stop).payloads() == lines(count).payloads()[start:stop]


def test_settled_may_be_called_within_the_hand_over() -> None:
    order: list[str] = []
    owed = Receipt(lambda _: order.append("settled"), 3)
    accept: Callable[[Receipt], None] = lambda copy: copy.ack()  # a sink in one line
    accept(owed)
    order.append("returned")
    assert order == ["settled", "returned"]
