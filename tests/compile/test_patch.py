"""`patch` and `merge` against a plain reading of them, and what both leave as it was."""

import copy
import json
from typing import Any

from hypothesis import given, strategies as st

from tests.compile.world import expression
from walflow_kernel.errors import CannotEvaluate

keys = st.sampled_from("abc")
values: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.just([])), lambda inner: st.dictionaries(keys, inner, max_size=3),
    max_leaves=8
)  # fmt: skip
records = st.dictionaries(keys, values, max_size=3)
operations = st.one_of(
    st.tuples(st.sampled_from(["insert", "update", "upsert", "default", "merge"]), keys, values),
    st.tuples(st.sampled_from(["move", "copy"]), keys, keys),
    st.tuples(st.just("erase"), keys, st.none()),
    st.tuples(st.sampled_from(["merge", "default"]), st.none(), values),
)
Operation = tuple[str, str | None, Any]


class No(Exception):
    """The event would be refused."""


@given(event=records, program=st.lists(operations, min_size=1, max_size=5))
def test_a_patch_does_what_its_operations_say_and_changes_nothing_else(
    event: dict[str, Any], program: list[Operation]
) -> None:
    before = copy.deepcopy(event)
    # by way of the event, so that nothing is worked out beforehand
    carried = {"of": event, "with": {str(at): value for at, (_, _, value) in enumerate(program)}}
    text = f"patch event.of of {'; '.join(_written(at, *one) for at, one in enumerate(program))} end"
    whole = copy.deepcopy(carried)
    try:
        expected: object = _patched(copy.deepcopy(event), program)
    except No:
        expected = No
    try:
        made = expression(text).evaluate(carried, {})
    except CannotEvaluate:
        made = No
    assert made == expected
    assert carried == whole
    assert event == before


@given(event=records, program=st.lists(operations, min_size=1, max_size=4))
def test_what_is_known_at_load_is_never_changed_by_events(event: dict[str, Any], program: list[Operation]) -> None:
    constant = expression(f"patch event of {'; '.join(_constant(*one) for one in program)} end")

    def once() -> object:
        try:
            return constant.evaluate(copy.deepcopy(event), {})
        except CannotEvaluate as refused:
            return str(refused)

    assert once() == once()


@given(left=records, right=records)
def test_merge(left: dict[str, Any], right: dict[str, Any]) -> None:
    event = {"left": left, "right": right}
    before = copy.deepcopy(event)
    assert expression("merge event.left of event.right end").evaluate(event, {}) == _merged(left, right)
    assert event == before


def test_only_what_is_touched_is_copied() -> None:
    event: dict[str, Any] = {"big": {"a": []}, "r": {"s": {"t": 1}, "u": {}}}
    made: Any = expression('patch event of merge "r" => {"s": {"t": 2}} end').evaluate(event, {})
    assert made["big"] is event["big"]
    assert made["r"]["u"] is event["r"]["u"]
    assert made["r"]["s"] == {"t": 2}


def _written(at: int, word: str, key: str | None, value: object) -> str:
    if word == "erase":
        return f'erase "{key}"'
    if word in {"move", "copy"}:
        return f'{word} "{key}" => "{value}"'
    return f'{word} {"" if key is None else _quoted(key)} => event["with"]["{at}"]'


def _constant(word: str, key: str | None, value: object) -> str:
    if word in {"merge", "default"} and (word == "merge" or key is None) and not isinstance(value, dict):
        value = {"a": value}  # anything else is a mistake
    written = "" if key is None else _quoted(key)
    return f"erase {written}" if word == "erase" else f"{word} {written} => {json.dumps(value)}"


def _quoted(key: str) -> str:
    return json.dumps(key)


def _patched(record: dict[str, Any], program: list[Operation]) -> dict[str, Any]:
    for word, key, value in program:
        match word, key:
            case "merge", None:
                record = _merged(record, _record(value))
            case "default", None:
                record = _filled(record, _record(value))
            case "merge", str():
                record[key] = _merged(_record(record.get(key, {})), _record(value))
            case "erase", str():
                record.pop(key, None)
            case "default", str():
                record.setdefault(key, value)
            case "move" | "copy", str():
                _require(value not in record)
                if key in record:
                    record[value] = record[key]
                    if word == "move":
                        del record[key]
            case _, str():
                _require(word == "upsert" or (key in record) == (word == "update"))
                record[key] = value
    return record


def _merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    both = {
        k: _merged(v, right[k]) for k, v in left.items() if isinstance(v, dict) and isinstance(right.get(k), dict)
    }
    return {**left, **right, **both}


def _filled(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    both = {
        k: _filled(v, right[k]) for k, v in left.items() if isinstance(v, dict) and isinstance(right.get(k), dict)
    }
    return {**right, **left, **both}


def _record(value: Any) -> dict[str, Any]:
    _require(isinstance(value, dict))
    return value  # type: ignore[no-any-return]


def _require(condition: bool) -> None:
    if not condition:
        raise No
