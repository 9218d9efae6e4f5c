"""Nothing that one event, branch or name does to a value is seen by another, however the state, events, metadata and
locals have handed it on. The plain interpreter makes each of them anew, so it cannot go wrong in this."""

from random import Random

import pytest

from tests.compile.test_differential import compare
from tests.compile.world import read_script
from tests.examples import shared
from walflow.compile.program import ScriptOf
from walflow.compile.region import Region, Rule

PLACES = ["x", "event.a", "event", "$.m", "state", "state.a", "state.b", "state.a.in", "state[event.k]"]
VALUES = [
    *PLACES[:4],
    *["state", "state.a", "state.b", "state.a.in", "state[event.k]"] * 2,
    "[state.a, state.b]",
    '{"in": state.a}',
    'state.a + {"n": 2}',
    '(patch state of upsert "c" => state.a end)',
    '(patch state.a of merge => {"in": {"n": 3}} end)',
    "(merge state of event end)",
    "(match state of case s = %{a ~= %{present in}} => s default => state end)",
    "(match state.a of case s = %{present in} when event.n > 0 => s default => state.b end)",
    "(match [state.a, event] of case s = %(_, _) => s default => null end)",
    "(for state of case (k, v) => v end)",
    "same(state.a)",
    "same(state)",
    "array::push([state.b], state.a)",
    "match state of case s = %{present b} => let state.b.n = 8; let x = s.b; s default => state end",
    "for state of case (k, v) => let state[k] = {}; v end",
]
CHANGES = [
    "state.n",
    "state.a.n",
    "state.a.in.n",
    "state.b.n",
    "state[event.k].n",
    "x.n",
    "x.in.n",
    "event.a.n",
    "$.m.n",
]
FUNCTIONS = "fn same(x) with x end;"


def script(chance: Random) -> ScriptOf:
    statements = [
        # it may double with each statement, so it begins anew with each third event
        'match event.n % 3 of case 0 => let state = {"a": {"in": {}}, "b": {}} default => null end',
        "let x = {}",
    ]
    for _ in range(chance.randint(2, 5)):
        if chance.random() < 0.5:
            statements.append(f"let {chance.choice(PLACES)} = {chance.choice(VALUES)}")
        else:
            statements.append(f"let {chance.choice(CHANGES)} = event.n")
    left = chance.choice(["event", "x", "state", "state.a", "[x, state, event, state.a]", "let state.b = x"])
    found, said = read_script("; ".join([*statements, left]), FUNCTIONS)
    assert found is not None, said
    return found.script


def once(seed: int) -> None:
    """Two scripts beside each other, one behind the other, and a select that sends all of it on untouched."""
    chance = Random(seed)
    one, other = script(chance), script(chance)
    places = {
        "in": [Rule(None, None, None, "s"), Rule(None, None, None, "t"), Rule(None, None, None, "came")],
        "s/out": [Rule(None, None, None, "left"), Rule(None, None, None, "t")],
        "t/out": [Rule(None, None, None, "right")],
    }
    payloads = [
        b'{"k":"%s","n":%d,"a":{"in":{"n":0}}}' % (chance.choice([b"a", b"b", b"c"]), number) for number in range(12)
    ]
    compare(Region("random", "in", places, {"s": one, "t": other}), payloads)


@pytest.mark.parametrize("first", shared(range(0, 60, 2)))
def test_no_change_is_seen_elsewhere(first: int) -> None:
    for seed in range(first, first + 2):
        once(seed)
