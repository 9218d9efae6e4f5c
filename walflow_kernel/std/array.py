"""std::array."""

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function, too_long
from walflow_kernel.text import spliced
from walflow_kernel.values import LONGEST, as_bytes, equal, is_out_of_range, kind_of, out_of_range

Array = list[object]


def length(array: Array) -> int:
    return len(array)


def is_empty(array: Array) -> bool:
    return not array


def contains(array: Array, element: object) -> bool:
    return any(equal(one, element) for one in array)


def push(array: Array, element: object) -> Array:
    return [*array, element]


def zipped(left: Array, right: Array) -> Array:
    if len(left) != len(right):
        raise CannotApply(f"the arrays have {len(left)} and {len(right)} elements")
    return [[one, other] for one, other in zip(left, right, strict=True)]


def unzip(array: Array) -> Array:
    pairs = [pair_of(one) for one in array]
    return [[first for first, _ in pairs], [second for _, second in pairs]]


def pair_of(value: object) -> tuple[object, object]:
    if not _is_array(value):
        raise CannotApply(f"it takes an array of pairs, and one element is {kind_of(value)}")
    if len(value) != 2:
        raise CannotApply(f"it takes an array of pairs, and one element has {len(value)} elements")
    return value[0], value[1]


def flatten(array: Array) -> Array:
    flat: Array = []
    for one in array:
        if _is_array(one):
            flat += flatten(one)
        else:
            flat.append(one)
    return flat


def coalesce(array: Array) -> Array:
    return [one for one in array if one is not None]


def join(array: Array, separator: str) -> str:
    parts = [spliced(one) for one in array]
    if sum(map(len, parts)) + len(separator) * len(parts) > LONGEST:
        raise too_long()
    return separator.join(parts)


def sort(array: Array) -> Array:
    """Between kinds, the order is tremor's: records, arrays, texts and binary data, numbers, booleans, null."""
    kinds = set(map(type, array))
    if kinds <= {int, float} or kinds <= {str}:
        if any(map(is_out_of_range, array)):
            raise out_of_range()
        return sorted(array)  # type: ignore[type-var]  # all have an order, as has been seen
    return sorted(array, key=_rank)


def _rank(value: Any) -> tuple[Any, ...]:
    if is_out_of_range(value):
        raise out_of_range()
    if value is None:
        return (5,)
    if isinstance(value, bool):
        return (4, value)
    if isinstance(value, dict):
        keys = sorted(cast("dict[str, object]", value))
        return (0, len(keys), keys, [_rank(value[key]) for key in keys])
    if isinstance(value, list):
        return (1, [_rank(one) for one in cast("Array", value)])
    return (2, as_bytes(value)) if isinstance(value, str | bytes) else (3, value)


def reverse(array: Array) -> Array:
    return array[::-1]


def concatenate(left: Array, right: Array) -> Array:
    if len(left) + len(right) > LONGEST:
        raise too_long()
    return [*left, *right]


def _is_array(value: object) -> TypeGuard[Array]:
    return isinstance(value, list)


FUNCTIONS: Mapping[str, Function] = {
    "len": function(length),
    "is_empty": function(is_empty),
    "contains": function(contains),
    "push": function(push),
    "zip": function(zipped),
    "unzip": function(unzip),
    "flatten": function(flatten),
    "coalesce": function(coalesce),
    "join": function(join, grows=True),
    "sort": function(sort),
    "reverse": function(reverse),
    "concatenate": function(concatenate),
}
