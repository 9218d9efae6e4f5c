"""Outage or poison: what counts against an event, and how an outage is counted."""

import pytest

from walflow.backoff import Backoff
from walflow.outage import NO_BLAME, Blame, Rounds


def test_a_failure_counts_only_if_the_peer_has_taken_something_since_the_one_before() -> None:
    blame = NO_BLAME
    counted: list[int] = []
    for taken in (7, 7, 8, 8, 9):
        blame = blame.failed(taken, counts=blame.suspects(taken))
        counted.append(blame.counted)
    assert counted == [0, 0, 1, 1, 2]
    assert (blame.tries, blame.taken) == (5, 9)


def test_the_first_failure_counts_if_it_is_known_what_the_peer_had_taken_when_it_was_sent() -> None:
    assert not NO_BLAME.suspects(1_000)
    assert not Blame(taken=4).suspects(4)
    assert Blame(taken=4).suspects(5)


def test_what_is_not_alone_fails_and_is_not_counted_against() -> None:
    blame = Blame(taken=1).failed(2, counts=True, events=2)
    assert blame == Blame(1, 0, 2)
    assert blame.failed(3, counts=True, events=1) == Blame(2, 1, 3)


def test_what_fails_while_a_wait_lasts_is_the_same_trouble_and_the_waits_grow() -> None:
    rounds = Rounds(Backoff(1.0, 10.0, 2.0))
    assert rounds.failed(5.0)
    assert not rounds.failed(5.9)
    assert (rounds.row, rounds.ends, rounds.due) == (1, 6.0, 6.0)
    assert rounds.failed(6.0)
    assert (rounds.row, rounds.ends) == (2, 8.0)


def test_a_try_is_due_after_the_wait_of_its_round_and_does_not_end_it() -> None:
    rounds = Rounds(Backoff(1.0, 10.0, 2.0))
    rounds.begin(0.0)
    rounds.begin(1.0)
    rounds.tried(3.0)
    assert (rounds.row, rounds.ends, rounds.due) == (2, 3.0, 5.0)
    assert rounds.failed(3.5)


@pytest.mark.parametrize(("least", "due"), [(0.5, 1.0), (30.0, 30.0)])
def test_a_wait_may_be_longer_because_the_peer_asks_for_it(least: float, due: float) -> None:
    rounds = Rounds(Backoff(1.0, 10.0))
    rounds.begin(0.0, least)
    assert (rounds.ends, rounds.due) == (due, due)


def test_once_something_is_taken_the_next_failure_is_the_first_again() -> None:
    rounds = Rounds(Backoff(1.0, 10.0, 2.0))
    for _ in range(3):
        rounds.begin(0.0)
    rounds.took()
    assert (rounds.row, rounds.ends, rounds.due) == (0, 0.0, 0.0)
    assert rounds.failed(0.5)
    assert rounds.due == 1.5
