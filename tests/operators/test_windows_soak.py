"""Events of an hour in windows, by a clock of the test's: what they take does not grow, and no event is missing.

python -m pytest -m soak tests/operators/test_windows_soak.py
"""

import gc
import tracemalloc

import pytest

from tests.compile.windows import query
from tests.operators.test_windows import Stand
from walflow.event import Block

GROUPS = 50  # at a time; each is there for half a minute
WARM = 3  # minutes after which all kinds of windows have closed, and groups have come and gone
CHAIN = """
    define window second from tumbling with interval = 1_000_000_000 end;
    define window ten from tumbling with interval = 10_000_000_000 end;
    define window minute from tumbling with interval = 60_000_000_000 end;
    select {
      "window": window, "group": group[0], "count": aggr::stats::count(), "sum": aggr::stats::sum(event.x),
      "spread": aggr::stats::stdev(event.x), "p": aggr::stats::dds(event.x, ["0.5"]), "last": aggr::win::last(event.text)
    }
    from in[second, ten, minute] group by event.g into out;
    define window hundred from tumbling with size = 100, max_groups = 1000 end;
    select {"window": window, "all": aggr::win::collect_flattened(event.x)} from in[hundred] into out;
"""  # noqa: E501  # a line of its data is one


@pytest.mark.nightly
def test_ten_minutes() -> None:
    soak(minutes=10, rate=40)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_an_hour() -> None:
    soak(minutes=60, rate=300)


class Totals:
    """What the results say in the sum."""

    def __init__(self) -> None:
        self.counted: dict[str, int] = {"second": 0, "ten": 0, "minute": 0}
        self.collected = 0

    def accept(self, block: Block) -> None:
        for result in block.values:
            assert isinstance(result, dict)
            if result["window"] == "hundred":
                self.collected += len(result["all"])
            else:
                self.counted[result["window"]] += result["count"]
        block.receipt.ack()


def soak(minutes: int, rate: int) -> None:
    """`rate`: events a second."""
    stand = Stand(compiled=query(CHAIN), flushes=True)
    totals = Totals()
    stand.sink.accept = totals.accept  # type: ignore[method-assign]
    used: list[int] = []  # bytes, at the end of each minute
    kept: list[int] = []
    tracemalloc.start()
    try:
        for second in range(minutes * 60):
            stand.send(second, *(event(second, number) for number in range(rate)))
            stand.acked.clear()
            stand.scheduler.advance(1)
            if second % 60 == 59:
                gc.collect()
                used.append(tracemalloc.get_traced_memory()[0])
                kept.append(sum(cell[1] for cell in stand.state.values()))
    finally:
        tracemalloc.stop()
    assert max(used[WARM:]) < max(used[:WARM]) * 1.2, used
    assert max(kept[WARM:]) < max(kept[:WARM]) * 1.2, kept
    stand.node.drain()
    assert totals.counted == {
        "second": minutes * 60 * rate,
        "ten": minutes * 60 * rate,
        "minute": minutes * 60 * rate,
    }
    assert totals.collected == minutes * 60 * rate
    assert not stand.compiled.has_groups(stand.state)
    stand.node.end()


def event(second: int, number: int) -> bytes:
    return b'{"g": "host-%d-%d", "x": %d, "text": "%d of %d"}' % (
        second // 30,
        number % GROUPS,
        number,
        number,
        second,
    )
