"""When the source of a pipeline with windows tells what time it is, while nothing comes."""

from itertools import pairwise

from hypothesis import given, strategies as st

from pyspark_walflow.quiet import CLOSES, LATE_NS, LEAST, SHORTEST_NS, TICK_NS, Quiet, without_own

S = 1_000_000_000


def told(quiet: Quiet, polls: list[int]) -> list[int]:
    """The times that are told, of a stream whose last event came at 0."""
    found: list[int] = []
    for now in polls:
        tick = quiet.next(found[-1] if found else 0, 0, now)
        if tick is not None:
            found.append(tick)
    return found


def test_it_goes_on_until_every_window_is_closed_and_no_longer() -> None:
    quiet = Quiet(closes_ns=4 * S, least_ns=4 * S)
    assert told(quiet, [at * S // 2 for at in range(40)]) == [1 * S, 2 * S, 3 * S, 4 * S, 4 * S + S // 2]


@given(st.integers(1, 100 * S), st.integers(1, 100 * S), st.integers(S // 10, 3 * S))
def test_the_last_time_is_late_enough(closes: int, least: int, step: int) -> None:
    quiet = Quiet(closes, least)
    found = told(quiet, [at * step for at in range((closes + 3 * S) // step + 3)])
    assert all(later - time >= min(SHORTEST_NS, step) for time, later in pairwise(found[:-1]))
    assert found[-1] > closes + TICK_NS
    assert quiet.next(found[-1], 0, found[-1] + 1000 * S) is None


def test_a_script_for_ticks_is_told_the_time_without_an_end_and_ever_more_rarely() -> None:
    quiet = Quiet(closes_ns=1 << 62, least_ns=0)
    found = told(quiet, [at * S // 2 for at in range(2 * 3600)])
    assert found[:4] == [S // 2, S, S * 3 // 2, 2 * S]
    assert found[-1] > 3000 * S
    assert len(found) < 100
    assert all(later - time <= max(SHORTEST_NS, time // 9) + S // 2 for time, later in pairwise(found))


def test_a_time_is_told_when_no_older_event_can_come() -> None:
    assert Quiet(S, S).next(0, 0, LATE_NS + S) == S


def test_its_options_are_no_options_of_a_user() -> None:
    options = {"Tick.Closes.ns": "5", LEAST: "2", "host": "x"}
    assert Quiet.of(options) == Quiet(5, 2)
    assert Quiet.of({"host": "x"}) is None
    assert without_own(options | {CLOSES: "5"}) == {"host": "x"}
