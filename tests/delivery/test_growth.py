"""When a log will be full."""

from math import inf

from hypothesis import given, strategies as st

from connectors.wal import Wal
from tests.delivery.whole import Whole
from walflow.delivery.growth import ENDED, EVERY, OVER, Growth
from walflow.testing import MemoryDisk


def grown(*marks: tuple[float, int]) -> Growth:
    growth = Growth(1000)
    for now, size in marks:
        assert growth.due(now)
        growth.note(now, size)
    return growth


def test_it_goes_on_as_it_was() -> None:
    assert grown((0, 100)).full_in(10, 200) == 80  # 10 bytes a second, 800 to go


def test_it_does_not_grow() -> None:
    growth = grown((0, 100))
    assert growth.full_in(10, 100) == growth.full_in(10, 50) == inf


def test_nothing_comes_any_more() -> None:
    growth = grown((0, 100), (EVERY, 500))
    assert growth.full_in(EVERY + ENDED - 0.1, 510) < inf
    assert growth.full_in(EVERY + ENDED, 510) == inf


def test_it_is_full() -> None:
    assert Growth(1000).full_in(0, 1000) == 0


def test_too_little_is_known() -> None:
    assert Growth(1000).full_in(100, 500) == inf
    assert grown((0, 100)).full_in(EVERY - 0.1, 500) == inf


def test_only_the_last_minute_counts() -> None:
    growth = grown((0, 0), *((now, 500) for now in range(10, 71, 10)))
    assert growth.full_in(OVER + 10, 500) == inf
    assert growth.full_in(OVER + 11, 510) < inf


@given(st.lists(st.tuples(st.floats(EVERY, 1000), st.integers(0, 999)), max_size=200))
def test_few_marks_are_kept(steps: list[tuple[float, int]]) -> None:
    growth, now = Growth(1000), 0.0
    for step, size in steps:
        now += step
        growth.note(now, size)
        assert growth.full_in(now + EVERY, size) >= 0
    assert f"{growth!r}".endswith(" marks>")
    assert int(f"{growth!r}".split()[-2]) <= OVER / EVERY + 2


def test_a_log_whose_sink_acks_nothing_fills() -> None:
    whole = Whole(Wal(path="/log", chunk_size=1 << 20, max_chunks=4), MemoryDisk())
    assert whole.gauge("wal_full_in_seconds") == inf
    for _ in range(20):
        whole.give(b"." * 10_000)
        whole.scheduler.advance(1.0)
    limit = 0.9 * (4 << 20)
    left = (limit - whole.gauge("wal_backlog_bytes")) / 10_100
    assert 0.9 * left <= whole.gauge("wal_full_in_seconds") <= 1.1 * left
    whole.ack_all()
    assert whole.gauge("wal_full_in_seconds") == inf
    whole.close()
