"""What a sender sends next, over a supply of lines that are all there:
limits, probes, what is forgotten, and what it says."""

from collections.abc import Container, Sequence
from itertools import pairwise

import pytest

from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.sender import BLOCK, HOLDS_UP, TURN_BYTES, TURN_EVENTS, Sender
from walflow.delivery.sink_record import BACKOFF, LAST_WAIT, OUTAGE
from walflow.errors import HandedBack, OneOfMany
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.testing import MemoryOutlet, VirtualScheduler

LOST = ConnectionError("gone")
STREAM = StreamId("f::source", 1, 1)


class Lines:
    """Each event is its position. `blocks`: how many events the parts have."""

    def __init__(
        self,
        blocks: Sequence[int],
        events: int | None = None,
        attempts: int | None = None,
        *,
        letters: Sequence[str] = (),
        window: int = 8 << 20,
        outlet: type[MemoryOutlet] = MemoryOutlet,
    ) -> None:
        self.scheduler = VirtualScheduler()
        self.out = outlet(self.scheduler)
        self.out.window = window
        self.sender: Sender[None] = Sender(self, self.out, SendLimits(events, attempts, letters=frozenset(letters)))
        self.held_up = False
        self.acks: list[tuple[int, int]] = []
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

    def settle(self, bad: Container[int]) -> None:
        """These fail, and the others are taken."""
        for block in self.take():
            if int(block.frames.payloads()[0]) in bad:
                block.receipt.fail(LOST, sink="f::sink")
            else:
                block.receipt.ack("f::sink")

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

    def acked(self, part: InFlight[None], first: int, last: int) -> None:
        self.acks.append((first, last))

    def failed(self, part: InFlight[None], first: int, last: int) -> None: ...

    def given_up(self, part: InFlight[None]) -> None: ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        return self.held_up

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


@pytest.mark.parametrize("bad", [(), (2,)])
def test_the_outcome_of_what_was_dropped_is_not_told(bad: tuple[int, ...]) -> None:
    lines = Lines([1, 2, 1])
    lines.sender.forget(3)
    lines.settle(bad)
    assert lines.acks == [(4, 4)]
    assert lines.sender.failed(9).events == 0
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


def test_it_says_when_each_is_tried_again() -> None:
    lines = Lines([1, 1])
    lines.fail_all()
    assert all(part.seconds > 0 for part in lines.sender.failed(9).parts)
    lines.scheduler.advance(0.2)
    assert lines.numbers == [[1], [2]]
    assert [part.seconds for part in lines.sender.failed(9).parts] == [0.0, 0.0], "they are tried now"
    lines.close()


BAD = range(1, 9)


@pytest.mark.parametrize(("events", "window", "most"), [(20, 8 << 20, 5), (16, 8 << 20, 4), (40, 48, 6)])
def test_what_failed_while_others_pass_takes_a_quarter_of_the_window_and_every_fourth_turn(
    events: int, window: int, most: int
) -> None:
    """Events of two bytes and more: six of 2 bytes are a quarter of 48."""
    lines = Lines([1] * 400, events=events, window=window)
    seen = 0
    for _ in range(9):
        lines.settle(BAD)
        lines.scheduler.advance(0.5)
        sent = [number for [number] in lines.numbers]
        old = [place for place, number in enumerate(sent) if number in BAD]
        if all(part.attempts for part in lines.sender.failed(9).parts):
            assert len(old) <= most
            assert all(after - before >= 4 for before, after in pairwise(old))
            seen = max(seen, len(old))
    assert seen == most
    lines.close()


class Doorkeeper(MemoryOutlet):
    """Lets one block through, and shuts."""

    def send(self, block: Block) -> bool:
        sent = super().send(block)
        self.pause()
        return sent


def test_in_an_outage_old_and_new_ones_are_tried_in_turn() -> None:
    """A breaker that lets one come after a time in which both had become due. What is handed back is waited for by no
    newer one."""
    lines = Lines([1] * 60, outlet=Doorkeeper)
    lines.out.on_ready(lines.sender.pump)
    tried: list[int] = []
    for _ in range(40):
        for block in lines.take():
            tried += map(int, block.frames.payloads())
            block.receipt.fail(HandedBack("busy"), sink="f::sink")
        lines.scheduler.advance(2 * LAST_WAIT)
        lines.out.resume()
    again = [number in tried[:place] for place, number in enumerate(tried)]
    assert 10 < sum(again) < len(again) - 10
    lines.close()


def test_in_an_outage_a_new_one_is_tried_beside_an_old_one_that_goes_apart() -> None:
    lines = Lines([1] * 4)
    for block in lines.take():
        block.receipt.fail(HandedBack("busy"), sink="f::sink")
    while sum(part.tries for part in lines.sender.failed(9).parts) < 16:
        lines.scheduler.advance(0.5)
        for block in lines.take():
            block.receipt.fail(OneOfMany("the connection ended"), sink="f::sink")
    while not lines.numbers:
        lines.scheduler.advance(0.5)
    (old,) = lines.numbers  # it has no outcome yet
    for number in (5, 6, 7):
        lines.scheduler.advance(2 * LAST_WAIT)
        lines.sender.ready.append(InFlight(number, number, None))
        lines.sender.pump()
        assert lines.numbers == [old, [number]]
        lines.out.sent.pop().receipt.fail(HandedBack("busy"), sink="f::sink")
    lines.close()


@pytest.mark.parametrize("letters", [["f::sink"], ["f::sink", "f::other"], ["f::other"], []])
def test_what_is_given_up_goes_once_more_to_a_sink_that_keeps_letters(letters: list[str]) -> None:
    lines = Lines([1] * 200, events=8, attempts=1, letters=letters)
    while not lines.out.rejected:
        lines.settle([1])
        lines.scheduler.advance(1.0)
    assert ([1] in lines.numbers) is ("f::sink" in letters)
    lines.close()


@pytest.mark.parametrize(("held_up", "count"), [(True, 1), (True, 2), (False, 1)])
def test_an_event_that_holds_up_all_others_is_given_up_after_half_a_minute_each(*, held_up: bool, count: int) -> None:
    """Nothing else comes, so its sink takes nothing else. A part of several is halved before."""
    lines = Lines([count], attempts=2)
    lines.held_up = held_up
    began = lines.scheduler.time()
    given_up: list[float] = []
    while lines.scheduler.time() < began + 200 and len(given_up) < count:
        given_up += [lines.scheduler.time() - began for _ in lines.out.rejected]
        lines.out.rejected.clear()
        lines.fail_all()
        lines.scheduler.advance(0.5)
    assert len(given_up) == (count if held_up else 0)
    assert all(seconds > HOLDS_UP for seconds in given_up)
    lines.close()


class Turns(Lines):
    """Its sink acks at once, and each ack asks for more. `turns`: events and bytes of each turn of the loop."""

    def __init__(self, blocks: int, events: int, filler: int) -> None:
        super().__init__([], outlet=Acking)
        self.turns: list[tuple[int, int]] = []
        self.filler = filler
        for first in range(1, blocks * events + 1, events):
            self.sender.ready.append(InFlight(first, first + events - 1, None))
        self.next_turn()
        self.scheduler.call_soon(self.sender.pump)
        self.scheduler.run()

    def next_turn(self) -> None:
        self.turns.append((0, 0))
        if self.sender.ready:
            self.scheduler.call_soon(self.next_turn)

    def block(self, part: InFlight[None], receipt: Receipt) -> Block | None:
        block = super().block(part, receipt)
        assert block is not None
        part.size += self.filler * part.count
        events, size = self.turns[-1]
        self.turns[-1] = events + part.count, size + part.size
        return block

    def acked(self, part: InFlight[None], first: int, last: int) -> None:
        self.sender.pump()


class Acking(MemoryOutlet):
    def send(self, block: Block) -> bool:
        sent = super().send(block)
        self.sent.clear()
        block.receipt.ack("f::sink")
        return sent


def test_a_turn_of_the_loop_has_so_many_events() -> None:
    events = [events for events, _ in Turns(60, 1000, 0).turns]
    assert sum(events) == 60_000
    assert max(events) < TURN_EVENTS + 1000
    assert sum(map(bool, events)) == 7


def test_a_turn_of_the_loop_has_fewer_events_if_each_is_a_block() -> None:
    events = [events for events, _ in Turns(2000, 1, 0).turns]
    assert sum(events) == 2000
    assert max(events) == TURN_EVENTS // (BLOCK + 1) + 1


def test_a_turn_of_the_loop_has_so_many_bytes() -> None:
    sizes = [size for _, size in Turns(100, 10, 10_000).turns]
    assert max(sizes) < TURN_BYTES + 10 * 10_010
    assert sum(map(bool, sizes)) == 10
