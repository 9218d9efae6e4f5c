"""`patch` and `merge`: a record made from another, which is left as it was.

Only what is touched is copied: the record itself, and each record within that something is merged into.
Operations are applied in their order, each to what those before it made; what they insert is worked out from the
event as it came, so `insert "a" => event.b; erase "b"` means what it says in either order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from walflow.expr.constant import kind_of
from walflow.expr.evaluate import Evaluate
from walflow.expr.operators import CannotApply

Fields = dict[str, Any]  # Any: whatever JSON brings
Operation = Callable[[Fields, object, Mapping[str, object]], None]
"""Changes the record it is given: a fresh copy, of which nothing deeper may be changed."""


_kind: Callable[[object], type] = type  # compared exactly: what JSON makes


def patched(of: Evaluate, operations: Sequence[Operation]) -> Evaluate:
    def patch(event: object, meta: Mapping[str, object]) -> object:
        record: Any = of(event, meta)
        if _kind(record) is not dict:
            raise CannotApply(f"`patch` takes a record, not {kind_of(record)}")
        made: Fields = record.copy()
        for operation in operations:
            operation(made, event, meta)
        return made

    return patch


def merged(of: Evaluate, spec: Evaluate) -> Evaluate:
    def merge(event: object, meta: Mapping[str, object]) -> object:
        return merge_records(_record("merge", of(event, meta)), _record("merge", spec(event, meta)))

    return merge


def merge_records(left: Fields, right: Fields) -> Fields:
    """Records within records are merged too; of anything else the right one stays, null like any other."""
    made = left.copy()
    _merge_into(made, right)
    return made


def insert(key: str, value: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        if key in record:
            raise _exists("insert", key)
        record[key] = value(event, meta)

    return apply


def update(key: str, value: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        if key not in record:
            raise CannotApply(f"`update`: a record without `{key}`")
        record[key] = value(event, meta)

    return apply


def upsert(key: str, value: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        record[key] = value(event, meta)

    return apply


def default(key: str, value: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        if key not in record:
            record[key] = value(event, meta)

    return apply


def merge(key: str, value: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        spec = _record("merge", value(event, meta))
        left = record.get(key, _NOTHING)
        if _kind(left) is not dict:
            raise CannotApply(f"`merge`: `{key}` is {kind_of(left)}, not a record")
        record[key] = merge_records(left, spec)

    return apply


def erase(key: str) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        record.pop(key, None)

    return apply


def move(key: str, to: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        new = _absent("move", to(event, meta), record)
        if key in record:
            record[new] = record.pop(key)

    return apply


def copy(key: str, to: Evaluate) -> Operation:
    def apply(record: Fields, event: object, meta: Mapping[str, object]) -> None:
        new = _absent("copy", to(event, meta), record)
        if key in record:
            record[new] = record[key]

    return apply


def merge_all(value: Evaluate) -> Operation:
    return lambda record, event, meta: _merge_into(record, _record("merge", value(event, meta)))


def default_all(value: Evaluate) -> Operation:
    return lambda record, event, meta: _fill(record, _record("default", value(event, meta)))


_KEYED: Mapping[str, Callable[[str, Evaluate], Operation]] = {
    "insert": insert,
    "update": update,
    "upsert": upsert,
    "default": default,
    "merge": merge,
    "move": move,
    "copy": copy,
}
_WHOLE: Mapping[str, Callable[[Evaluate], Operation]] = {"merge": merge_all, "default": default_all}


def operation(word: str, key: str | Evaluate | None, value: Evaluate | None) -> Operation:
    """`key` is a function where it depends on the event, None where the word is about the whole record."""
    if callable(key):
        return lambda record, event, meta: operation(word, str(key(event, meta)), value)(record, event, meta)
    if key is not None and value is None:
        return erase(key)
    assert value is not None
    return _WHOLE[word](value) if key is None else _KEYED[word](key, value)


_NOTHING: Fields = {}


def _merge_into(made: Fields, right: Fields) -> None:
    for key, value in right.items():
        left: Any = made.get(key)
        made[key] = merge_records(left, value) if _kind(left) is dict and _kind(value) is dict else value


def _fill(made: Fields, right: Fields) -> None:
    for key, value in right.items():
        left: Any = made.setdefault(key, value)
        if left is not value and _kind(left) is dict and _kind(value) is dict:
            filled: Fields = left.copy()
            _fill(filled, value)
            made[key] = filled


def _record(word: str, value: Any) -> Fields:
    if _kind(value) is not dict:
        raise CannotApply(f"`{word}` takes a record, not {kind_of(value)}")
    record: Fields = value
    return record


def _absent(word: str, key: object, record: Fields) -> str:
    if key in record:
        raise _exists(word, str(key))
    return str(key)


def _exists(word: str, key: str) -> CannotApply:
    return CannotApply(f"`{word}`: a record with `{key}` already")
