"""`patch` and `merge`: a new record is made from a record, which stays unchanged. Only what changes is copied: the
record itself, and each record within it that something is merged into.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.operators import add
from walflow_kernel.paths import PathStep
from walflow_kernel.values import exact, is_record, kind_of

Fields = dict[str, Any]  # Any: a value of an event


def record_of(word: str, value: Any) -> Fields:
    """The value, if it is a record: `word` accepts nothing else."""
    if exact(value) is not dict:
        raise CannotApply(f"`{word}` takes a record, not {kind_of(value)}")
    record: Fields = value
    return record


def merged(left: object, right: object) -> Fields:
    """`merge left of right`. Records within records are merged too. For any other value the right one stays, also if
    it is null."""
    return merge_records(record_of("merge", left), record_of("merge", right))


def merge_records(left: Fields, right: Fields) -> Fields:
    made = left.copy()
    _merge_into(made, right)
    return made


# For a patch: `record` is a fresh copy. Nothing deeper in it may be changed.


def vacant(word: str, record: Fields, key: str) -> None:
    """Raises if the key exists: `insert`, `move` and `copy` do not overwrite."""
    if key in record:
        raise CannotApply(f"`{word}`: a record with `{key}` already")


def occupied(record: Fields, key: str) -> None:
    if key not in record:
        raise CannotApply(f"`update`: a record without `{key}`")


def merge_at(record: Fields, key: str, spec: object) -> None:
    fields = record_of("merge", spec)
    left = record.get(key, _NOTHING)
    if exact(left) is not dict:
        raise CannotApply(f"`merge`: `{key}` is {kind_of(left)}, not a record")
    record[key] = merge_records(left, fields)


def move(record: Fields, key: str, to: str) -> None:
    vacant("move", record, to)
    if key in record:
        record[to] = record.pop(key)


def copy(record: Fields, key: str, to: str) -> None:
    vacant("copy", record, to)
    if key in record:
        record[to] = record[key]


def merge_all(record: Fields, spec: object) -> None:
    _merge_into(record, record_of("merge", spec))


def default_all(record: Fields, spec: object) -> None:
    _fill(record, record_of("default", spec))


_NOTHING: Fields = {}


def _merge_into(made: Fields, right: Fields) -> None:
    for key, value in right.items():
        left: Any = made.get(key)
        made[key] = merge_records(left, value) if is_record(left) and is_record(value) else value


def _fill(made: Fields, right: Fields) -> None:
    for key, value in right.items():
        left: Any = made.setdefault(key, value)
        if left is not value and is_record(left) and is_record(value):
            filled: Fields = left.copy()
            _fill(filled, value)
            made[key] = filled


# Of a script


def assigned(root: object, keys: Sequence[object], value: object, steps: Sequence[PathStep]) -> Fields:
    """`root` with `value` at the end of `keys`. Missing records on the way are made. The old records stay unchanged,
    because other values may contain them."""
    made = top = opened(root, steps[0])
    for at, key in enumerate(keys):
        if type(key) is not str:
            raise CannotApply(f"`{steps[at].path}`: `{steps[at].shown}` is {kind_of(key)}, not a key")
        if at == len(keys) - 1:
            made[key] = value
        else:
            inner = opened(made[key], steps[at + 1]) if key in made else {}
            made[key] = inner
            made = inner
    return top


def opened(value: Any, step: PathStep) -> Fields:
    """A copy that may be changed."""
    if exact(value) is not dict:
        raise CannotApply(f"`{step.path}`: {kind_of(value)} takes no member `{step.shown}`")
    record: Fields = value
    return record.copy()


def entries(value: Any) -> Iterable[tuple[object, object]]:
    """What `for` iterates over: index and element of an array, key and value of a record.
    Nothing for any other value."""
    if exact(value) is list:
        items: list[object] = value
        return enumerate(items)
    if exact(value) is dict:
        fields: Fields = value
        return fields.items()
    return ()


def gathered(made: object, value: object) -> object:
    """`for … into START`: `made` with what one turn gives.
    A record is the `for`'s own and gets the members of `value`."""
    if exact(made) is dict:
        record = record_of("into", made)
        record.update(record_of("into", value))
        return record
    return add(made, value)


MOST_TURNS: Final = 65_536  # steps of one call of a function that ends in `recur`


def endless(name: str) -> CannotApply:
    return CannotApply(f"`{name}`: more than {MOST_TURNS} times `recur`")


def change(word: str, key: str | None) -> Callable[[Fields, Any], None]:
    """One operation of a patch, as a function of the record and the value.
    Generated code contains the same operations."""
    if key is None:
        return merge_all if word == "merge" else default_all
    return partial(_change, word, key)


def _change(word: str, key: str, record: Fields, value: Any) -> None:
    match word:
        case "erase":
            record.pop(key, None)
        case "move":
            move(record, key, value)
        case "copy":
            copy(record, key, value)
        case "merge":
            merge_at(record, key, value)
        case "default":
            record.setdefault(key, value)
        case _:
            if word == "insert":
                vacant(word, record, key)
            elif word == "update":
                occupied(record, key)
            record[key] = value
