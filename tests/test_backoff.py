import pytest
from hypothesis import given, strategies as st

from walflow import Backoff


def test_each_wait_is_so_much_longer_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.next() for _ in range(9)] == pytest.approx([0.1, 0.15, 0.225, 0.3375, 0.50625, 0.759375, 1, 1, 1])


def test_after_a_success_it_begins_anew() -> None:
    backoff = Backoff(0.1, 10.0, 2)
    assert [backoff.next(), backoff.next(), backoff.failures] == [0.1, 0.2, 2]
    backoff.reset()
    assert (backoff.failures, backoff.next()) == (0, 0.1)


def test_a_drawn_wait_lies_between_the_one_before_and_the_full_one() -> None:
    drawn: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        drawn.append((low, high))
        return high

    backoff = Backoff(1.0, 3.0, 2, draw=draw)
    assert [backoff.next() for _ in range(4)] == [1, 2, 3, 3]
    assert drawn == [(1, 2), (2, 3), (3, 3)]


def test_it_gives_up_after_so_many_failures_in_a_row() -> None:
    backoff = Backoff(0.1, 1.0, most=2)
    given_up = []
    for _ in range(3):
        backoff.next()
        given_up.append(backoff.gave_up)
    assert given_up == [False, False, True]
    backoff.reset()
    assert not backoff.gave_up


@given(
    first=st.floats(0.001, 100), longest=st.floats(100, 1e6), growth=st.floats(1, 1e6), failures=st.integers(1, 10**9)
)
def test_no_number_of_failures_is_too_many(first: float, longest: float, growth: float, failures: int) -> None:
    waits = [Backoff(first, longest, growth).after(count) for count in (1, failures, failures + 1)]
    assert first == waits[0] <= waits[1] <= waits[2] <= longest


def test_what_it_shows() -> None:
    backoff = Backoff(0.1, 1.0)
    backoff.next()
    assert repr(backoff) == "<Backoff 1 failures, next 0.15 s>"
