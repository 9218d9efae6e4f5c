"""std::record."""

from collections.abc import Mapping

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.std.array import pair_of
from walflow_kernel.values import kind_of

Array = list[object]
Record = dict[str, object]


def length(record: Record) -> int:
    return len(record)


def is_empty(record: Record) -> bool:
    return not record


def contains(record: Record, key: str) -> bool:
    return key in record


def keys(record: Record) -> Array:
    return list(record)


def values(record: Record) -> Array:
    return list(record.values())


def to_array(record: Record) -> Array:
    return [[key, value] for key, value in record.items()]


def from_array(array: Array) -> Record:
    pairs = [pair_of(one) for one in array]
    return {_key(key): value for key, value in pairs}


def extract(record: Record, keys: Array) -> Record:
    """Keys that do not exist, and keys that are no strings, are skipped, as in tremor."""
    return {key: record[key] for key in keys if isinstance(key, str) and key in record}


def combine(left: Record, right: Record) -> Record:
    return {**left, **right}


def rename(target: Record, changes: Record) -> Record:
    new = {key: to for key, to in changes.items() if isinstance(to, str)}
    return {new.get(key, key): value for key, value in target.items()}


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise CannotApply(f"the first of a pair is a string, not {kind_of(key)}")
    return key


FUNCTIONS: Mapping[str, Function] = {
    "len": function(length),
    "is_empty": function(is_empty),
    "contains": function(contains),
    "keys": function(keys),
    "values": function(values),
    "to_array": function(to_array),
    "from_array": function(from_array),
    "extract": function(extract),
    "combine": function(combine),
    "rename": function(rename),
}
