"""`memory`: a log that is gone with the process, without a loop."""

import asyncio
from collections import Counter

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import ValidationError

from connectors.memory import Buffer, Memory
from tests.examples import examples
from tests.receipts import known
from walflow import Block
from walflow.errors import WalflowError
from walflow.receipt import Receipt
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

LOST = WalflowError("gone")


class Whole:
    """One life. What it sends stands in `sent` until the test settles it."""

    def __init__(self, **config: int) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.outlet = MemoryOutlet(self.scheduler)
        self.buffer = Buffer(Memory(**config), self.inlet, self.outlet)
        self.buffer.buffering.start()

    @property
    def sent(self) -> list[Block]:
        return self.outlet.sent

    def give(self, *numbers: int) -> Receipt:
        block = self.inlet.lines_of(*(b"%d" % number for number in numbers))
        self.inlet.give(block)
        return block.receipt

    def ack(self, at: int = 0) -> list[object]:
        block = self.sent.pop(at)
        block.receipt.ack("f::sink")
        self.scheduler.run()
        return block.values

    def fail(self, at: int = 0, done: int = 0) -> None:
        self.sent.pop(at).receipt.fail(LOST, done, "f::sink")
        self.scheduler.run()

    def values(self) -> list[list[object]]:
        return [block.values for block in self.sent]

    def settle_all(self) -> None:
        while self.sent:
            self.ack()


def test_what_is_stored_is_acked_at_once_and_goes_on() -> None:
    whole = Whole(max_elements=10)
    assert not whole.give(1, 2).pending
    assert whole.values() == [[1, 2]]
    assert whole.buffer.events == 2
    whole.ack()
    assert whole.buffer.events == whole.buffer.bytes == 0


def test_it_stops_its_sources_at_its_bound_and_holds_what_comes_all_the_same() -> None:
    whole = Whole(max_elements=4)
    whole.give(1, 2, 3)
    assert whole.inlet.breaker is None
    late = whole.give(4, 5)
    assert whole.inlet.breaker is not None
    assert late.pending
    assert whole.buffer.events == 3
    whole.ack()
    assert not late.pending
    assert whole.inlet.breaker is None
    assert whole.values() == [[4, 5]]
    whole.settle_all()


def test_what_does_not_fit_another_output_gets() -> None:
    """Behind a round robin nothing waits for room: that would be an event which the other output could take."""
    whole = Whole(max_elements=4)
    whole.inlet.upstream = whole.inlet.upstream._replace(replaceable=True)
    whole.give(1, 2, 3)
    late = whole.give(4, 5)
    assert whole.inlet.failed == [(b"4\n5\n", "3 events, 6 bytes are in memory, and that is its bound")]
    assert not late.pending
    assert whole.inlet.breaker is not None
    whole.ack()
    assert whole.inlet.breaker is None
    assert not whole.give(4, 5).pending
    whole.settle_all()


def test_the_bound_in_bytes() -> None:
    whole = Whole(max_bytes=8)
    whole.give(1, 2, 3)
    late = whole.give(4, 5)
    assert late.pending
    assert whole.inlet.breaker == "3 events, 6 bytes are in memory, and that is its bound"
    whole.inlet.give(whole.inlet.lines_of(b"123456789"))
    whole.settle_all()
    assert not late.pending
    assert whole.inlet.rejected[0][1] == "event of 10 bytes is larger than max_bytes, 8"
    whole.settle_all()


def test_read_count_is_what_may_be_with_the_sinks() -> None:
    whole = Whole(max_elements=100, read_count=3)
    assert whole.outlet.window_events == 3
    whole.give(*range(7))
    assert whole.values() == [[0, 1, 2]]
    whole.give(7)
    whole.ack()
    assert whole.values() == [[3, 4, 5]]
    whole.ack()
    assert whole.values() == [[6], [7]]
    whole.settle_all()


def test_what_failed_comes_again_before_what_is_newer() -> None:
    whole = Whole(max_elements=100, read_count=4)
    whole.give(1, 2)
    whole.give(3, 4)
    whole.give(5)
    whole.fail(0, done=1)
    whole.ack(0)
    assert whole.values() == []
    whole.scheduler.advance(0.1)
    assert whole.values() == [[2], [5]]
    known = whole.sent[0].receipt.delivered
    assert known is not None, "it comes again"
    assert not known, "no sink has it"
    whole.settle_all()


def test_the_sinks_that_have_a_block_are_remembered() -> None:
    whole = Whole(max_elements=100)
    whole.give(1)
    block = whole.sent.pop()
    block.receipt.fork(1)
    block.receipt.ack("f::first")
    block.receipt.fail(LOST, 0, "f::second")
    whole.scheduler.advance(0.1)
    assert whole.sent[0].receipt.delivered == known(1, "f::first")
    whole.settle_all()


def test_what_is_lost_with_it_is_said() -> None:
    whole = Whole(max_elements=2)
    whole.give(1, 2)
    late = whole.give(3)
    asyncio.run(whole.buffer.buffering.close())
    assert late.cause is not None
    assert whole.outlet.logged[-1]["events"] == 2
    assert whole.outlet.counters["lost_events_total"].value == 2
    whole.settle_all()


def test_memory_has_a_bound() -> None:
    with pytest.raises(ValidationError, match="give max_elements, max_bytes or both"):
        Memory()


async def test_its_run_ends_with_what_it_holds_said() -> None:
    scheduler = VirtualScheduler()
    inlet, outlet = MemoryInlet(scheduler), MemoryOutlet(scheduler)
    run = asyncio.create_task(Memory(max_elements=1, max_bytes=None, read_count=None).run(inlet, outlet))
    await asyncio.sleep(0)
    inlet.give(inlet.lines_of(b"1"))
    assert outlet.count_backlog() == 1
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert outlet.lines == ["lost"]
    outlet.sent.pop().receipt.ack()


class Model(RuleBasedStateMachine):
    """Blocks given, acked and failed in any order: the bounds hold, order is kept among what did not fail, and every
    event is acked in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = Whole(max_elements=20, max_bytes=60, read_count=7)
        self.next = 0
        self.acked: Counter[object] = Counter()

    @rule(size=st.integers(1, 30))
    def give(self, size: int) -> None:
        self.whole.give(*range(self.next, self.next + size))
        self.next += size

    @precondition(lambda self: self.whole.sent)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.whole.sent) - 1))
        self.acked.update(self.whole.ack(at))

    @precondition(lambda self: self.whole.sent)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.whole.sent) - 1))
        block = self.whole.sent[at]
        done = data.draw(st.integers(0, block.frames.count))
        self.acked.update(block.values[:done])
        self.whole.fail(at, done)

    @rule(paused=st.booleans())
    def breaker(self, paused: bool) -> None:
        if paused:
            self.whole.outlet.pause()
        else:
            self.whole.outlet.resume()

    @rule()
    def time_passes(self) -> None:
        self.whole.scheduler.advance(10.0)

    @invariant()
    def bounded(self) -> None:
        buffer = self.whole.buffer
        assert buffer.events <= 20
        assert buffer.bytes <= 60
        assert sum(block.frames.count for block in self.whole.sent) <= 7
        assert buffer.buffering.is_full == (self.whole.inlet.breaker is not None)

    def teardown(self) -> None:
        self.whole.outlet.resume()
        for _ in range(1000):
            while self.whole.sent:
                self.acked.update(self.whole.ack())
            self.whole.scheduler.advance(10.0)
            if not self.whole.sent:
                break
        assert self.acked == Counter(range(self.next))
        assert self.whole.buffer.events == self.whole.buffer.bytes == 0
        assert self.whole.inlet.breaker is None


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
