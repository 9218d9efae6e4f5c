"""What windows hold depends on the events and their stamps, and on nothing else: a plain model agrees."""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.compile.windows import Model, Stamped, WindowSpec, block, left, query, windowed
from walflow.compile.compiled import BlockCall, Compiled
from walflow.compile.reads import Decoded
from walflow_kernel.moment import Moment
from walflow_kernel.state import HEAD_BYTES, SMALL_BYTES, State, size_of, snapshot
from walflow_kernel.windows.aggregates import ITEM_BYTES
from walflow_kernel.windows.frame import GROUP, SLOTS, chain as chain_of
from walflow_kernel.windows.groups import bytes_of_frames, group_bytes
from walflow_kernel.windows.sketches import NUMBER_BYTES

MS = 1_000_000
CHAINS = [
    [WindowSpec("size", 1)],
    [WindowSpec("size", 3)],
    [WindowSpec("interval", 50 * MS)],
    [WindowSpec("interval", 300 * MS)],
    [WindowSpec("interval", 137 * MS + 1)],
    [WindowSpec("size", 2), WindowSpec("size", 3)],
    [WindowSpec("interval", 100 * MS), WindowSpec("interval", 400 * MS)],
    [WindowSpec("interval", 90 * MS), WindowSpec("size", 2), WindowSpec("interval", 500 * MS)],
    [WindowSpec("size", 2), WindowSpec("interval", 250 * MS), WindowSpec("size", 2)],
]
steps = st.tuples(
    st.sampled_from([0, 0, 0, 1, 7 * MS, 50 * MS, 100 * MS, 360 * MS, 1500 * MS]),
    st.sampled_from("abc"),
    st.integers(-50, 50),
)
chains = st.sampled_from(CHAINS)
streams = st.lists(steps, max_size=40)
END = 3600 * 1000 * MS
NOW = 1_700_000_000_000_000_000


def stamped(steps: Sequence[tuple[int, str, int]]) -> list[Stamped]:
    found, now = list[Stamped](), NOW
    for step, group, x in steps:
        now += step
        found.append(Stamped(now, group, x))
    return found


def run(chain: list[WindowSpec], events: Sequence[Stamped], *, most: int = 100, kept: bool = False) -> list[Any]:
    """`most`: events of a block. `kept`: the state goes through JSON between any two blocks."""
    compiled = windowed(chain)
    state, results = compiled.new_state(), []
    for at, alike in groupby(events, attrgetter("at")):
        some = [{"g": one.group, "x": one.x} for one in alike]
        for begin in range(0, len(some), most):
            results += left(block(compiled, at, some[begin : begin + most], state))
            if kept:
                state = json.loads(json.dumps(state))
    results += left(compiled.tick(state, (events[-1].at if events else 0) + END))
    return results


def by_group(results: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for one in results:
        found[one["group"]].append(one)
    return found


def close_to(result: dict[str, Any]) -> dict[str, Any]:
    variance = result["var"]
    return {
        **result,
        "var": variance if variance is None else pytest.approx(variance, abs=1e-9),
        "mean": pytest.approx(result["mean"]),
    }


@settings(deadline=None)
@given(chains, streams)
def test_a_plain_model_agrees(chain: list[WindowSpec], given: list[tuple[int, str, int]]) -> None:
    events = stamped(given)
    model = Model(chain)
    model.now = events[0].at if events else 0
    for event in events:
        model.event(event)
    model.tick(model.now + 5000 * MS)
    found = by_group(run(chain, events))
    assert found == {group: [close_to(one) for one in results] for group, results in model.results.items()}


@settings(deadline=None)
@given(chains, streams, st.integers(1, 4))
def test_other_block_boundaries_change_nothing(
    chain: list[WindowSpec], given: list[tuple[int, str, int]], most: int
) -> None:
    assert run(chain, stamped(given), most=most) == run(chain, stamped(given))


@settings(deadline=None)
@given(chains, streams)
def test_a_state_that_is_written_and_read_between_any_two_events_changes_nothing(
    chain: list[WindowSpec], given: list[tuple[int, str, int]]
) -> None:
    assert run(chain, stamped(given), most=1, kept=True) == run(chain, stamped(given))


@settings(deadline=None)
@given(chains, streams)
def test_other_groups_between_them_change_nothing(chain: list[WindowSpec], given: list[tuple[int, str, int]]) -> None:
    events = stamped(given)
    together = by_group(run(chain, events))
    for group in "abc":
        assert by_group(run(chain, [one for one in events if one.group == group])) == (
            {group: together[group]} if group in together else {}
        )


@settings(deadline=None)
@given(chains, streams, st.lists(st.integers(0, 40), max_size=5))
def test_ticks_that_come_early_or_often_change_nothing(
    chain: list[WindowSpec], given: list[tuple[int, str, int]], at: list[int]
) -> None:
    """As long as no event is older than what a tick has promised."""
    events = stamped(given)
    compiled = windowed(chain)
    state, results = compiled.new_state(), []
    for number, one in enumerate(events):
        if number in at:
            results += left(compiled.tick(state, one.at))
            results += left(compiled.tick(state, one.at - one.at % (10 * MS)))
        results += left(block(compiled, one.at, [{"g": one.group, "x": one.x}], state))
    results += left(compiled.tick(state, (events[-1].at if events else 0) + END))
    assert results == run(chain, events)


@settings(deadline=None)
@given(chains, streams)
def test_each_event_is_in_one_window(chain: list[WindowSpec], given: list[tuple[int, str, int]]) -> None:
    """The sums of the first windows, and of what is still open, are the sum of the events."""
    events = stamped(given)
    compiled = windowed(chain[:1])
    state: State = compiled.new_state()
    results = [
        one for event in events for one in left(block(compiled, event.at, [{"g": event.group, "x": event.x}], state))
    ]
    still_open = list(state["in//0"][0]["groups"].values())
    assert (
        sum(one["sum"] for one in results) + sum(frame[SLOTS] for frame in still_open)
        == sum(event.x for event in events)
        or not events
    )


def test_a_snapshot_goes_on_by_itself() -> None:
    compiled = windowed([WindowSpec("size", 2)])
    state = compiled.new_state()
    block(compiled, 1, [{"g": "a", "x": 1}], state)
    kept = snapshot(state)
    assert [one["flat"] for one in left(block(compiled, 2, [{"g": "a", "x": 2}], state))] == [[1, 2]]
    assert [one["flat"] for one in left(block(compiled, 2, [{"g": "a", "x": 3}], kept))] == [[1, 3]]
    assert [one["flat"] for one in left(block(compiled, 3, [{"g": "a", "x": 4}, {"g": "a", "x": 5}], state))] == [
        [4, 5]
    ]


def test_nothing_stays_of_a_group_whose_windows_are_closed() -> None:
    compiled = windowed([WindowSpec("interval", 100 * MS), WindowSpec("size", 2)])
    state = compiled.new_state()
    for at in range(0, 4000 * MS, 1000 * MS):
        block(compiled, at, [{"g": f"g{at}", "x": 1}, {"g": "a", "x": 1}], state)
    compiled.tick(state, END)
    value = state["in//0"][0]
    assert set(value["groups"]) == {
        f'["g{at}"]' for at in range(0, 4000 * MS, 1000 * MS)
    }  # each waits for one window more
    assert value["waiting"] == [[], []]
    assert compiled.due(state) is None


def test_when_a_tick_has_something_to_do_is_known() -> None:
    compiled = windowed([WindowSpec("interval", 250 * MS)])
    state = compiled.new_state()
    assert compiled.due(state) is None
    block(compiled, 1_000_000_000, [{"g": "a", "x": 1}], state)
    assert compiled.due(state) == 1_300_000_000
    assert left(compiled.tick(state, 1_299_999_999)) == []
    assert len(left(compiled.tick(state, 1_300_000_000))) == 1


def test_results_of_ticks_came_of_no_event_and_those_of_events_of_the_last() -> None:
    compiled = query(
        "define window w from tumbling with interval = 1_000_000_000 end; define window s from tumbling with size = "
        '2 end;select {"w": window} from in[w] into out; select {"w": window} from in[s] into out;'
    )
    state = compiled.new_state()
    block(compiled, 1, [1], state)
    outcome = block(compiled, 2_000_000_000, [1, 2], state)
    assert list(outcome.rows["out"].numbers) == [-1, 0]
    assert left(outcome) == [{"w": "w"}, {"w": "s"}]
    assert outcome.rows["out"].metas == [{}, {}]


def test_an_event_that_fails_leaves_the_window_as_it_was() -> None:
    compiled = query(
        "define window w from tumbling with size = 2 end;"
        'select {"n": aggr::stats::count(), "s": aggr::stats::sum(event.x), "all": '
        "aggr::win::collect_flattened(event.y)} from in[w] into out;"
    )
    state = compiled.new_state()
    outcome = block(compiled, 1, [{"x": 1, "y": 1}, {"x": "no", "y": 2}, {"x": 3}, {"x": 4, "y": 4}], state)
    assert [one.number for one in outcome.refused] == [1, 2]
    assert list(outcome.rows["out"].values or ()) == [{"n": 2, "s": 5.0, "all": [1, 4]}]


def test_more_groups_than_there_may_be_are_refused_until_one_is_closed() -> None:
    compiled = query(
        "define window w from tumbling with size = 2, max_groups = 2 end;"
        "select group[0] from in[w] group by event into out;"
    )
    outcome = block(compiled, 1, ["a", "b", "c", "a", "c", "b", "c"], compiled.new_state())
    assert [one.number for one in outcome.refused] == [2]
    assert "max_groups" in outcome.refused[0].reason
    assert list(outcome.rows["out"].values or ()) == ["a", "b", "c"]


def test_an_hour_of_events_leaves_no_more_than_its_last_windows() -> None:
    compiled = windowed([WindowSpec("interval", 1000 * MS), WindowSpec("interval", 60_000 * MS)])
    state = compiled.new_state()
    sizes = []
    for second in range(3600):
        block(compiled, second * 1000 * MS, [{"g": f"g{second % 7}", "x": 0}], state)
        sizes.append(len(json.dumps(state)))
    assert max(sizes[1800:]) <= max(sizes[300:1800])


def kept_bytes(state: State) -> int:
    size: int = state["in//0"][1]
    return size


@settings(deadline=None)
@given(chains, streams, st.integers(1, 4))
def test_the_bytes_that_are_counted_are_those_that_are_kept(
    chain: list[WindowSpec], given: list[tuple[int, str, int]], most: int
) -> None:
    """Between any two blocks they are what the frames say; when all windows are closed, as at first."""
    events = stamped(given)
    compiled = keeping(chain)
    state = compiled.new_state()
    empty = kept_bytes(state)
    for at, alike in groupby(events, attrgetter("at")):
        some = [{"g": one.group, "x": [one.group * abs(int(one.x)), one.x]} for one in alike]
        for begin in range(0, len(some), most):
            left(block(compiled, at, some[begin : begin + most], state))
            assert kept_bytes(state) - empty == bytes_of(state)
    compiled.flush(state, END)
    assert kept_bytes(state) == empty


def keeping(chain: list[WindowSpec]) -> Compiled:
    """Aggregates whose slots grow."""
    defined = "".join(
        f"define window w{number} from tumbling with {kind} = {of} end; " for number, (kind, of) in enumerate(chain)
    )
    named = ", ".join(f"w{number}" for number in range(len(chain)))
    return query(
        defined + "select [aggr::win::first(event.x), aggr::win::last(event.x), aggr::win::last(event.g), "
        "aggr::win::collect_flattened(event.x), aggr::win::collect_nested(event.g), aggr::stats::hdr(event.x[1] + "
        f"100), aggr::stats::dds(event.x[1]), aggr::stats::sum(event.x[1])] from in[{named}] group by event.g into "
        "out;"
    )


def bytes_of(state: State) -> int:
    """Counted anew: an array of k items has k times 8 bytes beside them."""
    found = 0
    for first in state["in//0"][0]["groups"].values():
        frames = list(chain_of(first))
        found += group_bytes(first[GROUP], bytes_of_frames(len(frames), len(first) - SLOTS))
        for frame in frames:
            first_x, last_x, last_g, flat, _, nested, _, raw, bins, dds_raw, dds_bins, *_ = frame[SLOTS:]
            found += sum(size_of(value) - SMALL_BYTES for value in (first_x, last_x, last_g))
            found += sum(ITEM_BYTES + size_of(value) for value in flat) + nested_bytes(nested)
            found += NUMBER_BYTES * sum(map(len, (raw, bins, dds_raw, dds_bins)))
    return found


def nested_bytes(items: list[Any]) -> int:
    return sum(
        ITEM_BYTES + (HEAD_BYTES + nested_bytes(one) if isinstance(one, list) else size_of(one)) for one in items
    )


def test_windows_take_no_more_than_their_bytes_until_some_are_closed() -> None:
    compiled = query(
        "define window w from tumbling with size = 3, max_bytes = 20_000 end;"
        "select [group[0], aggr::stats::count(), aggr::win::collect_flattened(event.x)] from in[w] group by event.g "
        "into out;"
    )
    state = compiled.new_state()
    outcome = block(compiled, 1, [{"g": "a", "x": "x" * 30_000}], state)
    assert not outcome.refused
    assert 30_000 < kept_bytes(state) < 32_000
    outcome = block(compiled, 1, [{"g": "a", "x": 1}, {"g": "b", "x": 1}], state)
    assert [(one.number, one.reason[:25]) for one in outcome.refused] == [
        (0, "`max_bytes` is 20,000: th"),
        (1, "`max_bytes` is 20,000: th"),
    ]
    compiled.flush(state, 2)
    assert not block(compiled, 3, [{"g": "a", "x": 1}, {"g": "b", "x": 1}], state).refused


def test_an_event_that_adds_no_bytes_is_taken_also_where_there_is_no_room() -> None:
    compiled = query(
        "define window w from tumbling with size = 3, max_bytes = 1_200 end;"
        "select [group[0], aggr::stats::count()] from in[w] group by event into out;"
    )
    state = compiled.new_state()
    outcome = block(compiled, 1, ["a", "b", "c", "a", "a", "c"], state)
    assert [one.number for one in outcome.refused] == [2]
    assert outcome.rows["out"].values == [["a", 3]]
    assert kept_bytes(state) < 3_000


def test_a_tick_stops_where_its_results_are_large_and_goes_on_where_it_stopped() -> None:
    compiled = windowed([WindowSpec("interval", 100 * MS), WindowSpec("interval", 200 * MS)])
    parts, whole = compiled.new_state(), compiled.new_state()
    for state in (parts, whole):
        block(compiled, 1, [{"g": f"g{number}", "x": 1} for number in range(100)], state)
    found: list[Any] = []
    sizes: list[int] = []
    while (due := compiled.due(parts)) is not None:
        some = left(compiled.tick(parts, due, [5_000, None]))
        sizes.append(len(some))
        found += some
    assert max(sizes) < 20
    assert found == left(compiled.tick(whole, END))


def test_a_flush_stops_where_its_results_are_large_and_goes_on_where_it_stopped() -> None:
    compiled = windowed([WindowSpec("size", 9), WindowSpec("size", 9)])
    parts, whole = compiled.new_state(), compiled.new_state()
    for state in (parts, whole):
        block(compiled, 1, [{"g": f"g{number}", "x": 1} for number in range(100)], state)
    found: list[Any] = []
    sizes: list[int] = []
    while compiled.has_groups(parts):
        some = left(compiled.flush(parts, 2, [5_000, None]))
        sizes.append(len(some))
        found += some
    assert max(sizes) < 20
    assert found == left(compiled.flush(whole, 2))


def test_a_block_stops_where_the_results_of_its_windows_are_large() -> None:
    compiled = query(
        "define window w from tumbling with size = 2 end;"
        "select aggr::win::collect_flattened(event.x) from in[w] group by event.g into out;"
    )
    state = compiled.new_state()
    events = [{"g": f"g{number % 50}", "x": "x" * 1000} for number in range(100)]
    room: list[Any] = [10_000, None]
    call = BlockCall(Moment(1), range(100), {}, None, lambda number: None)
    outcome = compiled.run(Decoded(range(100), [*events]), call, state, room)
    assert 50 < room[1] < 60
    assert len(left(outcome)) == room[1] - 50


@settings(deadline=None)
@given(streams, st.integers(1, 4))
def test_a_window_with_a_state_that_counts_is_a_window_by_size(given: list[tuple[int, str, int]], most: int) -> None:
    """In blocks of any size, with a state that goes through JSON between them; and it leaves no bytes behind."""
    target = (
        "select [group[0], window, aggr::stats::count(), "
        "aggr::stats::sum(event.x)] from in[w] group by event.g into out;"
    )
    by_size = query(f"define window w from tumbling with size = 3 end; {target}")
    script = "let state.n = state.n + 1; let state.seen = event.g; state.n == 3"
    by_state = query(f'define window w from tumbling state {{"n": 0, "seen": ""}} script {script} end; {target}')
    events = stamped(given)
    plain, state = by_size.new_state(), by_state.new_state()
    empty = kept_bytes(state)
    for at, alike in groupby(events, attrgetter("at")):
        some = [{"g": one.group, "x": one.x} for one in alike]
        for begin in range(0, len(some), most):
            part = some[begin : begin + most]
            assert left(block(by_state, at, part, state)) == left(block(by_size, at, part, plain))
            state = json.loads(json.dumps(state))
    assert left(by_state.flush(state, END)) == left(by_size.flush(plain, END))
    assert kept_bytes(state) == empty


def calls_of(target: str) -> int:
    """How many functions are called while a select with this target is compiled."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        query(
            f"define window w from tumbling with size = 1 end; select {target} from in[w] group by event.g into out;"
        )
    finally:
        sys.setprofile(before)
    return calls


def test_each_level_deeper_takes_as_much_work_as_the_first_ones() -> None:
    query("select 1 from in into out;")  # the parser is made once
    first, second, third, last = (calls_of("[" * depth + "group[0]" + "]" * depth) for depth in (15, 30, 45, 60))
    assert last - third < 1.1 * (second - first)


def test_each_operator_more_before_an_operand_takes_as_much_work_as_the_first_ones() -> None:
    query("select 1 from in into out;")
    few, some, many = (calls_of("not " * number + "group[0]") for number in (4, 8, 12))
    assert many - some < 2 * (some - few)
