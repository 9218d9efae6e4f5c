"""A window with a script for ticks: what it holds depends on the events and their stamps, and on nothing else."""

import json
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.compile.test_windows import END, MS, NOW, by_group, kept_bytes, stamped, streams
from tests.compile.windows import Stamped, block, left, query
from walflow.compile.compiled import Compiled
from walflow_kernel.windows.frame import FILL


def ticking(interval: int, behind: str = "") -> Compiled:
    """It closes as a window by interval does: by the first event that is late enough, or at the first tick."""
    return query(
        f"""
        define window w from tumbling
        state null
        script from tick
          use tremor::system;
          system::ingest_ns() - state >= {interval}
        script
          use tremor::system;
          let opened = state;
          match opened of
            case null => let state = system::ingest_ns(); false
            case _ when system::ingest_ns() - opened >= {interval} => let state = system::ingest_ns(); [true, false]
            case _ => false
          end
        end;
        define window two from tumbling with size = 2 end;
        select {{"group": group[0], "window": window, "flat": aggr::win::collect_flattened(event.x)}}
        from in[w{behind}] group by event.g into out;
        """
    )


def by_interval(interval: int, behind: str = "") -> Compiled:
    return query(
        f"""
        define window w from tumbling with interval = {interval} end;
        define window two from tumbling with size = 2 end;
        select {{"group": group[0], "window": window, "flat": aggr::win::collect_flattened(event.x)}}
        from in[w{behind}] group by event.g into out;
        """
    )


def results_of(
    compiled: Compiled, events: Sequence[Stamped], *, most: int = 100, kept: bool = False, ticks: Sequence[int] = ()
) -> list[Any]:
    """`ticks`: the numbers of events before which time is told."""
    state, results, number = compiled.new_state(), list[Any](), 0
    for at, alike in groupby(events, attrgetter("at")):
        some = [{"g": one.group, "x": one.x} for one in alike]
        if number in ticks:
            results += left(compiled.tick(state, at - at % (10 * MS)))
            results += left(compiled.tick(state, at))
        for begin in range(0, len(some), most):
            results += left(block(compiled, at, some[begin : begin + most], state))
            if kept:
                state = json.loads(json.dumps(state))
        number += len(some)
    results += left(compiled.tick(state, (events[-1].at if events else 0) + END))
    assert compiled.due(state) is None
    return results


intervals = st.sampled_from([1, 50 * MS, 100 * MS, 137 * MS + 1, 300 * MS, 900 * MS])


@settings(deadline=None)
@given(intervals, st.sampled_from(["", ", two"]), streams)
def test_a_script_for_ticks_that_looks_at_the_time_is_a_window_by_interval(
    interval: int, behind: str, given: list[tuple[int, str, int]]
) -> None:
    events = stamped(given)
    plain = by_group(results_of(by_interval(interval, behind), events))
    assert by_group(results_of(ticking(interval, behind), events)) == plain


@settings(deadline=None)
@given(intervals, streams, st.integers(1, 4), st.lists(st.integers(0, 40), max_size=5))
def test_blocks_snapshots_other_groups_and_early_ticks_change_nothing_where_scripts_run_at_ticks(
    interval: int, given: list[tuple[int, str, int]], most: int, at: list[int]
) -> None:
    events, compiled = stamped(given), ticking(interval)
    whole = results_of(compiled, events)
    assert results_of(compiled, events, most=most, kept=True) == whole
    assert results_of(compiled, events, ticks=at) == whole
    together = by_group(whole)
    for group in "abc":
        alone = results_of(compiled, [one for one in events if one.group == group])
        assert alone == together.get(group, [])


COUNTS = query(
    """
    define window w from tumbling
    state 0
    script from tick
      let state = state + 1;
      false
    script
      event.g == "close"
    end;
    select aggr::stats::count() from in[w] into out;
    """
)


@pytest.mark.parametrize(
    ("seconds", "ticks"), [(1, 10), (60, 600), (120, 900), (240, 1200), (3600, 600 + 5 * 300 + 262)]
)
def test_ticks_of_a_quiet_group_become_rarer(seconds: int, ticks: int) -> None:
    state = COUNTS.new_state()
    block(COUNTS, NOW, [{"g": "a"}], state)
    left(COUNTS.tick(state, NOW + seconds * 1000 * MS))
    [frame] = state["in//0"][0]["groups"].values()
    assert frame[FILL][0] == ticks


def test_a_clock_that_jumps_over_decades_is_some_thousand_ticks() -> None:
    state = COUNTS.new_state()
    block(COUNTS, 0, [{"g": "a"}], state)
    left(COUNTS.tick(state, NOW))
    [frame] = state["in//0"][0]["groups"].values()
    assert frame[FILL][0] < 10_000
    assert len(state["in//0"][0]["waiting"][0]) == 1


def test_nothing_waits_for_a_group_whose_window_an_event_has_closed() -> None:
    state = COUNTS.new_state()
    empty = kept_bytes(state)
    for at in range(0, 5000 * MS, 10 * MS):
        block(COUNTS, NOW + at, [{"g": "a"}, {"g": "close"}], state)
    assert len(state["in//0"][0]["waiting"][0]) == 1
    left(COUNTS.tick(state, NOW + END))
    assert COUNTS.due(state) is None
    assert kept_bytes(state) == empty


def test_scripts_at_a_tick_end_where_there_is_no_more_room_and_go_on_there() -> None:
    compiled = ticking(50 * MS)
    parts, whole = compiled.new_state(), compiled.new_state()
    for state in (parts, whole):
        block(compiled, 1, [{"g": f"g{number}", "x": 1} for number in range(100)], state)
    found: list[Any] = []
    calls = 0
    while (due := compiled.due(parts)) is not None:
        found += left(compiled.tick(parts, due, [5_000, None]))
        calls += 1
    assert calls > 5
    assert found == left(compiled.tick(whole, END))
