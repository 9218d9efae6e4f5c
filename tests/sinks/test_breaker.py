"""Several reasons at a time, and the breaker that is half open."""

import pytest

from walflow.sinks import SinkBreaker
from walflow.sinks.breaker import StopReason
from walflow.testing import MemoryInlet, VirtualScheduler

TROUBLE, FULL = StopReason


@pytest.fixture
def inlet() -> MemoryInlet:
    return MemoryInlet(VirtualScheduler())


def test_trouble_is_shown_before_fullness_and_the_last_reason_restores(inlet: MemoryInlet) -> None:
    breaker = SinkBreaker(inlet)
    breaker.trigger(FULL, "enough waits")
    breaker.trigger(TROUBLE, "the disk is full")
    breaker.trigger(TROUBLE, "the disk is full")
    breaker.restore(TROUBLE)
    assert inlet.triggered == ["enough waits", "the disk is full", "enough waits"]
    breaker.restore(TROUBLE)
    assert inlet.breaker == "enough waits"
    breaker.restore(FULL)
    assert inlet.breaker is None


def test_two_engines_share_one(inlet: MemoryInlet) -> None:
    breaker = SinkBreaker(inlet)
    breaker.trigger(FULL, "stdout waits", "stdout")
    breaker.trigger(FULL, "stderr waits", "stderr")
    breaker.restore(FULL, "stderr")
    assert inlet.breaker == "stdout waits"
    breaker.restore(FULL, "stdout")
    assert inlet.breaker is None


def test_half_open_until_the_next_block_comes(inlet: MemoryInlet) -> None:
    breaker = SinkBreaker(inlet)
    breaker.trigger(TROUBLE, "not now")
    breaker.ask()
    breaker.trigger(TROUBLE, "not now (2 in a row)")
    assert (inlet.half_opened, inlet.breaker) == (True, "not now (2 in a row)")
    breaker.answered()
    assert (inlet.half_opened, inlet.breaker) == (False, "not now (2 in a row)")
    breaker.ask()
    breaker.restore(TROUBLE)
    breaker.answered()
    assert inlet.breaker is None
