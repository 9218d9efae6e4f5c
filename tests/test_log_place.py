"""A place in a log: a position, a time, or how long ago."""

import pytest

from walflow.log_place import HIGHEST, LogMoment, first_position, last_position, place_of
from walflow.world import wall_ns

SECOND = 10**9


def test_a_number_is_a_position() -> None:
    assert (place_of("42"), place_of(42), place_of(HIGHEST)) == (42, 42, HIGHEST)


@pytest.mark.parametrize(
    "wrong", ["0", str(HIGHEST + 1), "", "-", "-2", "-2y", "yesterday", "2026-13-01T00:00:00Z", "٣"]
)
def test_what_is_no_place_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        place_of(wrong)


def test_a_time_needs_a_zone_and_counts_its_fraction_once() -> None:
    assert place_of("2023-11-14T22:13:20Z") == LogMoment(1_700_000_000 * SECOND)
    assert place_of("2023-11-14T23:13:20.75+01:00") == LogMoment(1_700_000_000 * SECOND + 750_000_000)
    with pytest.raises(ValueError, match="has no time zone: write 2023-11-14T22:13:20Z for UTC"):
        place_of("2023-11-14T22:13:20")


def test_how_long_ago_is_from_now() -> None:
    before = wall_ns()
    place = place_of("-2h")
    assert isinstance(place, LogMoment)
    assert before <= place.ns + 7200 * SECOND <= wall_ns()


def test_a_time_is_the_first_position_from_it_on_and_the_last_before_it() -> None:
    asked: list[int] = []

    def at(ns: int) -> int:
        asked.append(ns)
        return 7

    assert (first_position(LogMoment(5), at), last_position(LogMoment(6), at)) == (7, 6)
    assert (first_position(3, at), last_position(4, at)) == (3, 4)
    assert asked == [5, 6]
