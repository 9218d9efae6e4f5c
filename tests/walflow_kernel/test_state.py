"""What a script keeps: it shares no container, and never weighs more than it may."""

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from walflow_kernel import state
from walflow_kernel.errors import CannotApply
from walflow_kernel.paths import PathStep
from walflow_kernel.state import DEEPEST, assign, cell, lent, replaced, snapshot, taken_apart, weight
from walflow_kernel.values import OutOfRange

STEPS = [PathStep(key, f"state.{key}") for key in ("k", "k", "k")]
LEAVES = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def let(of: list[Any], value: object, *keys: str, bound: int = 1 << 20) -> None:
    assign(of, keys, value, STEPS[: len(keys)], bound)


def containers(value: object) -> list[int]:
    found: list[int] = []
    waiting = [value]
    while waiting:
        one: Any = waiting.pop()
        if isinstance(one, dict | list):
            found.append(id(one))
            waiting += one.values() if isinstance(one, dict) else one
    return found


@given(VALUES)
def test_a_copy_shares_no_container_and_is_the_same(value: object) -> None:
    came = taken_apart(value)
    out = lent(came.value, (), [1 << 60, None])
    assert repr(out) == repr(came.value) == repr(value)
    ids = [*containers(value), *containers(came.value), *containers(out)]
    assert len(set(ids)) == len(ids)
    assert came.size == weight(value) == weight(pickle.loads(pickle.dumps(came.value)))


def test_what_stands_twice_in_a_value_stands_apart_in_the_state() -> None:
    once: dict[str, object] = {"a": 1}
    came = taken_apart([once, once]).value
    came[0]["a"] = 2
    assert came == [{"a": 2}, {"a": 1}]


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, OutOfRange("1e400")])
@pytest.mark.parametrize("within", [False, True])
def test_a_number_out_of_range_is_not_kept(value: object, within: bool) -> None:
    with pytest.raises(CannotApply, match="a number out of range"):
        taken_apart({"a": [value]} if within else value)


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"k": value}
    return value


def test_it_nests_so_deep_and_no_deeper() -> None:
    of = cell(deep(DEEPEST))
    assert pickle.loads(pickle.dumps(of)) == of
    with pytest.raises(CannotApply, match="nested too deep"):
        replaced(of, deep(DEEPEST + 1), 1 << 20)
    let(of, deep(DEEPEST - 2), "k", "k")
    with pytest.raises(CannotApply, match="nested too deep"):
        let(of, deep(DEEPEST - 1), "k", "k")
    assert of[0] == deep(DEEPEST)


def test_more_than_it_may_weigh_is_refused_and_changes_nothing() -> None:
    of = cell({})
    let(of, "x" * 500, "a", bound=1000)
    before = snapshot({"s": of})["s"][0]
    with pytest.raises(CannotApply, match="`state` would be larger than 1,000 bytes"):
        let(of, "x" * 500, "b", "c", bound=1000)
    with pytest.raises(CannotApply, match="`state` would be larger than 1,000 bytes"):
        replaced(of, ["x" * 1000], 1000)
    assert of[0] == before
    replaced(of, {}, 1000)
    let(of, "x" * 500, "b", bound=1000)


def test_what_is_overwritten_makes_room_again() -> None:
    """The old and the new one have room beside each other."""
    of = cell({})
    for number in range(1000):
        let(of, "x" * (400 + number % 3), "a", bound=1200)
    assert of[0] == {"a": "x" * 400}
    assert weight(of[0]) <= 1000


def test_a_state_that_is_full_is_not_counted_again_for_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []

    def counting(value: object) -> int:
        counted.append(value)
        return weight(value)

    monkeypatch.setattr(state, "weight", counting)
    of = cell({})
    refused = 0
    for number in range(100_000):
        try:
            let(of, number, f"{number}", bound=1 << 20)
        except CannotApply:
            refused += 1
    assert weight(of[0]) <= 1 << 20
    assert refused > 80_000
    assert len(counted) < 16 * 100_000 * 150 / (1 << 20)  # once for each sixteenth of the bound that came in


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), VALUES), max_size=20))
def test_the_estimate_is_never_too_few(changes: list[tuple[list[str], object]]) -> None:
    of = cell({})
    for keys, value in changes:
        try:
            let(of, value, *keys, bound=5000)
        except CannotApply:
            continue
        assert weight(of[0]) <= of[1] <= 5000
