"""Outage or poison, for messages that have their outcomes one by one: a sink over MessageRetries, in virtual time."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from walflow import Block, PeerSink, SinkPeer
from walflow.errors import HandedBack
from walflow.net import MessageRetries, NotConfirmed, NumberedMessage, SentBlock, any_untried
from walflow.testing import MemoryInlet, VirtualScheduler


class Sink(SinkPeer):
    """Its peer takes what is not in `refuses`. `sent`: each message that was sent, in order."""

    def __init__(self, *refuses: bytes, behind_log: bool = True) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, behind_log=behind_log)
        self.refuses = set(refuses)
        self.sent: list[bytes] = []
        self.waiting: list[NumberedMessage] = []
        self.held: dict[SentBlock, None] = {}
        self.causes: list[type[NotConfirmed] | None] = []
        PeerSink(self.inlet, self, gathers=False)
        self.retries = MessageRetries(
            self.inlet, self.sink, self.again, lambda: any_untried(self.in_hand()), topic="t"
        )
        self.sink.connected()
        self.inlet.serve(self.sink.accept)

    def in_hand(self) -> list[NumberedMessage]:
        return self.waiting

    def come(self, *payloads: bytes) -> None:
        self.inlet.give(self.inlet.lines_of(*payloads))

    def again(self, messages: Sequence[NumberedMessage], first: bool) -> None:
        at = 0 if first else len(self.waiting)
        self.waiting[at:at] = messages
        self.sink.wake()

    def end(self) -> None:
        for sent in self.held:
            self.inlet.fail(sent.block, NotConfirmed("stopped"))

    def send(self, waiting: deque[Block]) -> bool:
        while waiting:
            block = waiting.popleft()
            sent = SentBlock(block, block.frames.payloads())
            self.held[sent] = None
            self.waiting += [(sent, number) for number in range(sent.left)]
            self.retries.came()
        self.send_messages()
        return True

    def send_messages(self) -> None:
        while self.waiting and not self.retries.waits:
            self.outcome(self.waiting.pop(0))

    def outcome(self, message: NumberedMessage) -> None:
        sent, number = message
        self.sent.append(sent.messages[number])
        if sent.messages[number] in self.refuses:
            refusal = self.retries.failed(message, "not now")
            if refusal is None:
                return
            self.causes.append(refusal[0])
            sent.refused[number] = refusal
        else:
            self.retries.took(1)
            self.retries.passed()
        sent.left -= 1
        if not sent.left:
            del self.held[sent]
            sent.settle(self.inlet)


ANSWERS: Final = 15.0  # seconds until a SlowSink's peer does


class SlowSink(Sink):
    """Several messages are under way."""

    def __init__(self, *refuses: bytes) -> None:
        self.under_way: list[NumberedMessage] = []
        super().__init__(*refuses)

    def in_hand(self) -> list[NumberedMessage]:
        return [*self.waiting, *self.under_way]

    def send_messages(self) -> None:
        while self.waiting and not self.retries.waits:
            self.under_way.append(self.waiting.pop(0))
            self.scheduler.call_later(ANSWERS, self.answer)

    def answer(self) -> None:
        self.outcome(self.under_way.pop(0))


def test_the_first_failure_stops_all_so_the_order_is_kept() -> None:
    sink = Sink(b"2")
    sink.come(b"1", b"2", b"3")
    assert (sink.sent, sink.inlet.breaker) == ([b"1", b"2"], "not now")
    sink.refuses.clear()
    sink.scheduler.advance(0.1)
    assert sink.sent == [b"1", b"2", b"2", b"3"]
    assert (sink.inlet.acked, sink.inlet.breaker) == ([b"1\n2\n3\n"], None)


def test_in_an_outage_nothing_counts_the_waits_grow_and_the_breaker_stays() -> None:
    sink = Sink(b"1", b"2", behind_log=False)
    sink.come(b"1", b"2")
    sink.scheduler.advance(600)
    assert 60 < len(sink.sent) < 80, "one of them each 10 s"
    assert sink.inlet.settled == []
    assert sink.inlet.breaker == "not now"
    assert [(part.attempts, part.cause) for part in sink.inlet.failed_events(1).parts] == [(0, "not now")]
    sink.refuses.clear()
    sink.scheduler.advance(10)
    assert (sink.inlet.acked, sink.inlet.breaker) == ([b"1\n2\n"], None)
    assert sink.inlet.failed_events(1).events == 0


def test_one_that_is_never_taken_waits_alone_while_others_pass_and_then_fails_alone() -> None:
    sink = Sink(b"bad")
    sink.come(b"1", b"bad", b"2")
    for number in range(100):
        sink.scheduler.advance(0.1)
        sink.come(b"%d" % (10 + number))
    assert [failed for failed, _ in sink.inlet.failed] == [b"bad\n"]
    assert sink.inlet.failed[0][1] == "not now (6 times, and others were taken)"
    assert sink.sent.count(b"bad") == 6
    assert len(sink.inlet.failed_tries) == 3, "three waits in a row stopped the others, to keep the order"
    assert sink.inlet.breaker is None
    assert len(sink.inlet.acked) == 102


def test_a_bad_event_that_fails_as_others_are_taken_does_not_stop_the_sources_for_ever() -> None:
    """They were taken in the wait after its first failure, so it was alone when the wait was over."""
    sink = Sink(b"bad")
    sink.come(b"bad")
    sink.retries.took(1)  # what was under way
    sink.retries.passed()
    sink.scheduler.advance(60)
    assert sink.inlet.breaker is None or sink.inlet.half_opened
    assert [failed for failed, _ in sink.inlet.failed] == [b"bad\n"], "its source has it back"
    sink.come(b"1")
    assert (sink.inlet.acked, sink.inlet.breaker) == ([b"1\n"], None)


def test_two_bad_events_do_not_count_as_others_for_each_other() -> None:
    """Always one of them is under way as the other one fails."""
    sink = SlowSink(b"bad", b"worse")
    sink.come(b"bad")
    sink.scheduler.advance(ANSWERS / 2)
    sink.come(b"worse")
    sink.scheduler.advance(20 * ANSWERS)
    assert {failed for failed, _ in sink.inlet.failed} == {b"bad\n", b"worse\n"}, "their source has them back"
    assert sink.inlet.half_opened
    sink.come(b"1")
    sink.scheduler.advance(ANSWERS)
    assert (sink.inlet.acked, sink.inlet.breaker) == ([b"1\n"], None)


def test_where_only_bad_events_are_in_hand_the_sources_may_send_and_the_log_gets_them_back_if_nothing_comes() -> None:
    sink = Sink(b"bad")
    sink.come(b"bad")
    sink.scheduler.advance(0.35)
    assert sink.inlet.half_opened is False, "a peer that restarts gets all in order"
    sink.scheduler.advance(0.4)
    assert sink.inlet.half_opened
    assert sink.causes
    assert all(cause is not None and issubclass(cause, HandedBack) for cause in sink.causes)
    assert [failed for failed, _ in sink.inlet.failed] == [b"bad\n"]


def test_what_comes_through_the_half_open_breaker_shows_whose_fault_it_is() -> None:
    sink = Sink(b"bad", behind_log=False)
    sink.come(b"bad")
    for number in range(100):
        sink.scheduler.advance(1)
        if sink.inlet.half_opened:
            sink.come(b"%d" % number)
    assert sink.inlet.breaker is None, "the others pass"
    sink.come(b"more")
    assert len(sink.inlet.acked) == 2
    assert sink.inlet.failed == [], "two others do not make three attempts"
    sink.end()


def test_an_outage_that_begins_while_one_waits_alone_counts_nothing_more() -> None:
    sink = Sink(b"bad", behind_log=False)
    sink.come(b"bad", b"1")
    sink.scheduler.advance(0.1)
    sink.refuses |= {b"2"}
    sink.come(b"2")
    sink.scheduler.advance(300)
    assert sink.inlet.failed == []
    assert {part.attempts for part in sink.inlet.failed_events(9).parts} <= {0, 1}
    sink.end()
