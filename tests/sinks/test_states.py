"""The one table of states: complete, and what the page shows."""

from pathlib import Path

import pytest

from walflow.sinks import SinkEvent, SinkState
from walflow.sinks.states import AWAY, CLOSED, DUE, STOP, STOPPED, STOPPING, TRANSITIONS, drawn

PAGE = Path(__file__).parents[2] / "docs" / "decisions" / "0049-one-sink-engine.md"


def test_every_state_is_reached_and_every_run_can_be_ended() -> None:
    assert TRANSITIONS.keys() == set(SinkState)
    reached = {DUE, AWAY}  # where a JobSink and a PeerSink begin
    while more := {to for state in reached for to in TRANSITIONS[state].values()} - reached:
        reached |= more
    assert reached == set(SinkState)
    assert {event for moves in TRANSITIONS.values() for event in moves} == set(SinkEvent)
    for state in set(SinkState) - {STOPPING, CLOSED}:
        assert TRANSITIONS[state][STOP] in (STOPPING, STOPPED), state


def test_nothing_is_begun_once_it_stops() -> None:
    after = {STOPPING, STOPPED, CLOSED}
    for state in after:
        assert set(TRANSITIONS[state].values()) <= after, state


def test_the_page_shows_this_table() -> None:
    assert "\n".join(drawn()) in PAGE.read_text(), "put into it what `python -m walflow.sinks.states` prints"


def test_a_move_that_the_table_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        TRANSITIONS[CLOSED][SinkEvent.BEGIN]
