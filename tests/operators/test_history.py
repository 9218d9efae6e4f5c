"""debug::history: which way an event came stands in its metadata."""

from pathlib import Path

import pytest

from tests.operators.flows import Running

TWICE = """
    define operator first from debug::history with op = "first", name = "way" end;
    define operator second from debug::history with op = "second", name = "way" end;
    create operator first;
    create operator second;
    select event from in into first;
    select event from first into second;
    select {"event": event, "way": $way} from second into out;
"""


def test_each_place_adds_to_the_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flow = Running(TWICE)
    flow.give(1, 2)
    way = ["evt: first(main::ticks:1)", "evt: second(main::ticks:1)"]
    assert flow.got == [[{"event": 1, "way": way}, {"event": 2, "way": way}]]
    flow.sinks[0].ack()
    assert flow.outlet.inflight == 0
    flow.end()


def test_what_is_no_array_is_replaced_and_other_metadata_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow = Running(
        """
        define script mark script let $way = 7; let $value = event; event end;
        create script mark;
        define operator here from debug::history with op = "here", name = "way" end;
        create operator here;
        select event from in into mark;
        select event from mark into here;
        select $ from here into out;
        """
    )
    flow.give(1, 2)
    [got] = flow.got
    assert [meta["value"] for meta in got] == [1, 2]  # type: ignore[index]
    assert [meta["way"] for meta in got] == [["evt: here(main::ticks:1)"]] * 2  # type: ignore[index]
    flow.sinks[0].ack()
    flow.end()
