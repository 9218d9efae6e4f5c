"""Timers of a real loop: they go off up to the resolution of its clock too early,
and time passes while a turn lasts."""

from collections.abc import Callable

import pytest

from walflow import Frames, StreamId
from walflow.delivery.held_batches import HeldBatch, Resending
from walflow.framing import LINES
from walflow.testing import MemoryOutlet, VirtualScheduler
from walflow.testing.world import _Timer

TICK = 1e-4  # seconds that pass with each look at the clock


class PassingTime(VirtualScheduler):
    """`early`: seconds by which timers go off too early."""

    def __init__(self, early: float) -> None:
        super().__init__()
        self._early = early

    def time(self) -> float:
        self._now += TICK
        return self._now

    def call_later(self, delay: float, call: Callable[[], None]) -> _Timer:
        return super().call_later(delay - self._early, call)


@pytest.mark.parametrize("early", [number * TICK / 2 for number in range(8)])
def test_what_is_due_just_after_the_timer_is_sent(early: float) -> None:
    scheduler = PassingTime(early)
    out = MemoryOutlet(scheduler)
    resending = Resending(out, lambda: None)
    resending.hold(HeldBatch(StreamId("test::source", 1, 1), Frames(b"1\n", 1, LINES), [{}], 1))
    resending.pump()
    for tries in range(1, 200):
        (block,) = out.sent
        out.sent.clear()
        block.receipt.fail(ConnectionError("away"), 0, "sink")
        for _ in range(200):
            if out.sent:
                break
            scheduler.advance(0.1)
        assert out.sent, f"after {tries} tries it is sent no more"
    out.sent[0].receipt.ack("sink")
