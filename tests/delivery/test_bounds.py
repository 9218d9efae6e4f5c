"""A log bounded in events: `max_elements` in it, `read_count` with the sinks."""

from collections import Counter
from random import Random

from hypothesis import given, settings, strategies as st

from connectors.wal import Wal
from tests.delivery.whole import LOST, Whole
from tests.examples import examples
from walflow.testing import MemoryDisk


def lines(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def values(whole: Whole) -> list[list[object]]:
    return [block.values for block in whole.sent]


def test_the_log_holds_no_more_events_than_it_may() -> None:
    whole = Whole(Wal(path="w", max_elements=10), MemoryDisk())
    whole.give(*lines(*range(8)))
    assert whole.inlet.breaker is None
    late = whole.give(*lines(8, 9, 10))
    assert late.pending
    assert whole.inlet.breaker is not None
    assert whole.inlet.breaker.endswith(", 8 of 10 events")
    whole.sent.pop(0).receipt.ack("f::sink")
    whole.scheduler.advance(1)
    assert not late.pending
    assert whole.inlet.breaker is None
    whole.give(*lines(*range(11, 18)))
    assert whole.inlet.breaker is not None  # ten of ten
    whole.ack_all()
    whole.scheduler.advance(1)
    assert whole.inlet.breaker is None
    whole.close()


def test_a_larger_block_comes_in_parts() -> None:
    whole = Whole(Wal(path="w", max_elements=4), MemoryDisk())
    receipt = whole.give(*lines(*range(10)))
    seen: list[object] = []
    while receipt.pending:
        seen += values(whole)[0]
        whole.sent.pop(0).receipt.ack("f::sink")
        whole.scheduler.advance(1)
    assert seen == list(range(8))
    assert values(whole) == [[8, 9]]
    whole.ack_all()
    whole.close()


@given(blocks=st.lists(st.integers(1, 9), min_size=1, max_size=12), seed=st.integers(0, 2**32))
@settings(max_examples=examples(40), deadline=None)
def test_no_more_events_are_with_the_sinks_than_may_be(blocks: list[int], seed: int) -> None:
    whole = Whole(Wal(path="w", read_count=5), MemoryDisk())
    chance = Random(seed)
    assert whole.outlet.window_events == 5
    number = 0
    for size in blocks:
        whole.give(*lines(*range(number, number + size)))
        number += size
    acked: Counter[object] = Counter()
    failures = 0
    while whole.sent:
        assert sum(block.frames.count for block in whole.sent) <= 5
        block = whole.sent.pop(chance.randrange(len(whole.sent)))
        if failures < 5 and chance.random() < 0.5:
            failures += 1
            done = chance.randrange(block.frames.count)
            acked.update(block.values[:done])
            block.receipt.fail(LOST, done, "f::sink")
        else:
            acked.update(block.values)
            block.receipt.ack("f::sink")
        whole.scheduler.advance(20)
    assert acked == Counter(range(number))
    whole.close()
