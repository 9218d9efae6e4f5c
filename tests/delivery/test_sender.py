"""What a sender sends next, over a supply of lines that are all there:
limits, probes, what is forgotten, and what it says."""

from collections.abc import Sequence

import pytest

from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.sender import Sender
from walflow.delivery.sink_record import BACKOFF, OUTAGE
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.testing import MemoryOutlet, VirtualScheduler

LOST = ConnectionError("gone")
STREAM = StreamId("f::source", 1, 1)


class Lines:
    """Each event is its position. `blocks`: how many events the parts have."""

    def __init__(self, blocks: Sequence[int], events: int | None = None, attempts: int | None = None) -> None:
        self.scheduler = VirtualScheduler()
        self.out = MemoryOutlet(self.scheduler)
        self.sender: Sender[None] = Sender(self, self.out, SendLimits(events, attempts))
        self.dropped = 0
        first = 1
        for count in blocks:
            self.sender.ready.append(InFlight(first, first + count - 1, None))
            first += count
        self.sender.pump()

    @property
    def numbers(self) -> list[list[int]]:
        """Of what was sent and has no outcome yet."""
        return [[int(payload) for payload in block.frames.payloads()] for block in self.out.sent]

    def take(self) -> list[Block]:
        blocks = [*self.out.sent]
        self.out.sent.clear()
        return blocks

    def fail_all(self) -> None:
        for block in self.take():
            block.receipt.fail(LOST, sink="f::sink")

    def fail_some(self, number: int) -> None:
        failing = [block for block in self.out.sent if int(block.frames.payloads()[0]) == number]
        self.out.sent[:] = [block for block in self.out.sent if block not in failing]
        for block in failing:
            block.receipt.fail(LOST, sink="f::sink")

    def close(self) -> None:
        self.sender.stop()
        self.fail_all()

    # walflow.delivery.in_flight.Supply

    def fill(self) -> bool:
        return bool(self.sender.ready)

    def block(self, part: InFlight[None], receipt: Receipt) -> Block | None:
        data = b"".join(b"%d\n" % number for number in range(part.first, part.last + 1))
        part.size = len(data)
        return Block(STREAM, Frames(data, part.count, LINES), JSON, receipt, ingest_ns=1, meta={})

    def cut(self, part: InFlight[None], first: int, last: int) -> None: ...

    def sent(self, part: InFlight[None]) -> None: ...

    def returned(self, part: InFlight[None]) -> None: ...

    def acked(self, part: InFlight[None], first: int, last: int) -> None: ...

    def failed(self, part: InFlight[None], first: int, last: int) -> None: ...

    def given_up(self, part: InFlight[None]) -> None: ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        return False

    def place(self, part: InFlight[None]) -> str:
        return ""


def test_after_three_rounds_in_which_all_failed_only_probes_are_sent() -> None:
    lines = Lines([1] * 50)
    for _ in range(1 + OUTAGE):  # when they were new, and three times since
        assert len(lines.numbers) > 1
        lines.fail_all()
        lines.scheduler.advance(BACKOFF.after(OUTAGE) + 0.001)
    assert len(lines.numbers) <= 2, "one of the old ones, one of the new"
    lines.close()


def test_no_more_events_are_under_way_than_may_be_also_of_those_that_failed() -> None:
    lines = Lines([4, 4, 4], events=8)
    assert lines.numbers == [[1, 2, 3, 4], [5, 6, 7, 8]]
    first, _ = lines.out.sent
    lines.out.sent.remove(first)
    first.receipt.fail(LOST, sink="f::sink")
    lines.scheduler.advance(0.2)
    assert lines.numbers == [[5, 6, 7, 8], [1, 2, 3, 4]], "beside the four that are under way: eight may be"
    lines.close()


def test_what_failed_waits_where_it_does_not_fit() -> None:
    lines = Lines([4, 5], events=8)
    assert lines.numbers == [[1, 2, 3, 4], [5, 6, 7, 8]]
    first, other = lines.take()
    first.receipt.fail(LOST, sink="f::sink")
    other.receipt.ack("f::sink")
    lines.scheduler.advance(0.05)
    assert lines.numbers == [], "the newer one waits for the second try"
    lines.scheduler.advance(0.1)
    assert lines.numbers == [[1, 2, 3, 4], [9]]
    lines.close()


def test_events_that_are_gone_are_tried_no_more_and_the_others_are() -> None:
    lines = Lines([1, 1, 1])
    lines.fail_all()
    lines.sender.forget(2)
    assert [part.position for part in lines.sender.failed(9).parts] == [3]
    lines.scheduler.advance(0.2)
    assert lines.numbers == [[3]]
    lines.fail_all()
    lines.sender.forget(2)
    assert [part.position for part in lines.sender.failed(9).parts] == [3]
    lines.close()


@pytest.mark.parametrize("most", range(1, 9))
@pytest.mark.parametrize("rounds", range(1, 16, 2))
def test_new_events_are_tried_although_all_that_failed_is_gone(most: int, rounds: int) -> None:
    lines = Lines([1] * 60, events=most)
    for number in range(rounds):
        lines.fail_all()
        lines.scheduler.advance(0.37 * (number % 5))
    lines.fail_all()
    failed = lines.sender.failed(60).parts
    lines.sender.forget(max((part.position for part in failed), default=0))
    lines.scheduler.advance(15)
    assert lines.numbers
    lines.close()


def test_what_is_gone_takes_no_room_of_what_failed() -> None:
    lines = Lines([1] * 40, events=20)
    lines.out.window = 1
    for _ in range(2):
        lines.fail_all()
        lines.scheduler.advance(0.4)
    lines.fail_all()
    assert lines.sender.failed(9).events == 20, "new ones wait while so much has failed"
    lines.sender.forget(20)
    lines.scheduler.advance(15)
    assert lines.numbers[0] == [21]
    lines.close()


def test_newer_events_pass_a_few_that_failed_and_are_larger_than_the_window() -> None:
    """They waited for these, and so no attempt of these ever counted."""
    lines = Lines([1, 1, 1], events=2, attempts=1)
    lines.out.window = 1
    passed = 0
    for _ in range(60):
        for block in lines.take():
            if block.frames.payloads() == [b"3"]:
                block.receipt.ack("f::sink")
                passed += 1
            else:
                block.receipt.fail(LOST, sink="f::sink")
        lines.scheduler.advance(1)
    assert passed == 1
    lines.close()


def test_that_its_sink_took_it_by_another_way_is_not_something_else() -> None:
    """An event that comes to a sink by two ways, one of which fails while the peer is away."""
    lines = Lines([1], attempts=1)
    for _ in range(4):
        for block in lines.take():
            block.receipt.fork(1)
            block.receipt.ack("f::sink")
            block.receipt.fail(LOST, sink="f::sink")
        lines.scheduler.advance(15)
        assert lines.numbers == [[1]]
    assert lines.out.rejected == []
    lines.close()


def test_it_says_what_it_waits_for() -> None:
    lines = Lines([1])
    assert lines.sender.waits_for() == "", "for an outcome"
    lines.fail_all()
    lines.sender.pump()
    assert lines.sender.waits_for() == "the next try, in 0 s: f::sink: gone"
    lines.scheduler.advance(0.2)
    for block in lines.take():
        block.receipt.ack("f::sink")
    assert lines.sender.waits_for() == ""
    lines.close()


def test_what_was_sent_before_a_failure_is_nothing_that_got_through_since() -> None:
    """Where several sinks get an event, its outcome comes with the last of them: the sink that fails all now may have
    taken it before. A good event was given up for that in an outage."""
    lines = Lines([1, 1], attempts=1)
    first, second = lines.take()
    second.receipt.fail(LOST, sink="f::sink")
    first.receipt.ack("f::sink")
    for number in (3, 4):
        lines.scheduler.advance(1.0)
        assert lines.numbers == [[2]]
        lines.fail_all()
        assert lines.out.rejected == [], number
    lines.sender.ready.append(InFlight(3, 3, None))
    lines.sender.pump()
    while lines.numbers != [[3]]:
        lines.scheduler.advance(1.0)
        lines.fail_some(2)
    (third,) = lines.take()
    third.receipt.ack("f::sink")
    while not lines.out.rejected:
        lines.scheduler.advance(1.0)
        lines.fail_some(2)
    lines.close()
