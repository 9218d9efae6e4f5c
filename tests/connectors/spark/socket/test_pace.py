"""Never more than the rate allows, evenly, and no less where as many are wanted."""

from hypothesis import given, strategies as st

from connectors.spark.socket.pace import BURST, TICK, Pace

RATES = st.integers(1, 1_000_000)


@given(RATES, st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 0.5)), max_size=50))
def test_in_any_time_no_more_than_the_rate_and_one_burst(rate: int, turns: list[tuple[int, float]]) -> None:
    pace, now, given = Pace(rate, 0.0), 0.0, 0
    for wanted, passed in turns:
        now += passed
        got = pace.take(wanted, now)
        assert 0 <= got <= wanted
        given += got
        assert given <= rate * now + max(1.0, rate * BURST) + 1e-6 * rate


@given(RATES)
def test_whoever_waits_as_told_gets_the_rate_a_tick_at_a_time(rate: int) -> None:
    pace, now, given, most = Pace(rate, 0.0), 0.0, 0, 0
    pace.take(1 << 30, now)
    seconds = max(1.0, 20 / rate)
    while now < seconds:
        now += pace.delay(1 << 30, now) + 1e-6
        got = pace.take(1 << 30, now)
        most = max(most, got)
        given += got

    assert given >= 0.97 * rate * seconds - 1
    assert most <= rate * TICK + 2


def test_after_silence_one_goes_at_once() -> None:
    pace = Pace(10, 0.0)
    pace.take(10, 0.0)

    assert pace.delay(1, 100.0) == 0.0
    assert pace.take(1, 100.0) == 1


def test_silence_is_not_saved_up() -> None:
    pace = Pace(1000, 0.0)

    assert pace.take(1 << 30, 3600.0) == 1000 * BURST
