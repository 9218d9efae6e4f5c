"""What a region keeps from one event to the next: the interface that the daemon and Spark call,
and `state` of scripts."""

import copy

import pytest

from tests.compile.world import Script, call, read_script, script
from walflow.compile.compiled import BlockOutcome
from walflow.compile.reads import Decoded
from walflow_kernel.state import State, snapshot

COUNTS = 'match state of case null => let state = {"n": 0} default => null end; let state.n = state.n + 1; state.n'


def run(of: Script, state: State, *events: object) -> BlockOutcome:
    return of.compiled.run(Decoded(range(len(events)), [*events]), call(), state)


def values(outcome: BlockOutcome) -> list[object]:
    assert not outcome.refused
    return list(outcome.rows["out"].values or ())


# ---- the interface


def test_a_region_without_state_needs_none() -> None:
    of = script("event.a")
    assert not of.compiled.has_state
    assert of.compiled.new_state() == {}
    assert values(of.compiled.run(Decoded([0], [{"a": 1}]), call())) == [1]


def test_state_goes_on_from_one_block_to_the_next() -> None:
    of = script(COUNTS)
    assert of.compiled.has_state
    state = of.compiled.new_state()
    assert list(state) == ["s"]  # by the name of the node
    assert values(run(of, state, 1, 1)) == [1, 2]
    assert values(run(of, state, 1)) == [3]
    assert values(run(of, of.compiled.new_state(), 1)) == [1]


def test_a_snapshot_goes_on_by_itself() -> None:
    of = script(COUNTS)
    state = of.compiled.new_state()
    run(of, state, 1)
    kept = snapshot(state)
    assert values(run(of, state, 1)) == [2]
    assert values(run(of, copy.deepcopy(kept), 1, 1)) == [2, 3]
    assert values(run(of, kept, 1)) == [2]


def test_time_alone_lets_nothing_go_where_no_node_waits_for_it() -> None:
    of = script(COUNTS)
    outcome = of.compiled.tick(of.compiled.new_state(), 1)
    assert [list(rows.numbers) for rows in outcome.rows.values()] == [[]]
    assert not outcome.refused


# ---- `state` of a script


@pytest.mark.parametrize(
    ("text", "events", "left"),
    [
        ("state", [1], [None]),
        (COUNTS, [1, 1, 1], [1, 2, 3]),
        ("let state = event", [1, "a"], [1, "a"]),
        ("let before = state; let state = event; before", [1, {"a": 1}, 3], [None, 1, {"a": 1}]),
        ('let state = {"a": 1}; let x = state; let x.b = 2; state', [1], [{"a": 1}]),
        ("let state = event; let event.a = 2; state", [{"a": 1}], [{"a": 1}]),
        ("let state = event; let state.a = 2; [event]", [{"a": 1}], [[{"a": 1}]]),
        ('let state = {"a": {"x": 1}}; let state.b = state.a; let state.b.x = 2; state', [1],
         [{"a": {"x": 1}, "b": {"x": 2}}]),
        (('let state = {"a": {}}; let x = (patch state of upsert "c" => 1 end); '
'let state.a.n = 1; x'), [1], [{"a": {}, "c": 1}]),
        ("let state = {}; let state.a.b = 1; let state[event].c = 2; state", ["k"], [{"a": {"b": 1}, "k": {"c": 2}}]),
    ],
)  # fmt: skip
def test_state(text: str, events: list[object], left: list[object]) -> None:
    assert script(text).run(*events) == [("out", one) for one in left]


def test_what_an_error_has_left_changed_stays_changed() -> None:
    text = 'match event of case 1 => let state = {"n": 1}; event.none default => state end'
    assert script(text).run(1, 2) == ["`event.none`: a whole number without `none`", ("out", {"n": 1})]


def test_a_let_that_fails_changes_nothing() -> None:
    text = "match event of case 0 => let state = {} case 1 => let state.a[event] = 1 default => state end"
    assert script(text).run(0, 1, 2) == [
        ("out", {}),
        "`state.a[event]`: `event` is a whole number, not a key",
        ("out", {}),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fn f(x) with state end; f(1)", "a function sees its parameters alone, not `state`"),
        ("let state[0] = 1; event",
         "`let` assigns to a member of a record: an element of an array cannot be assigned to"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_when_the_file_is_read(text: str, said: str) -> None:
    found, messages = read_script(text)
    assert found is None
    assert said in messages
