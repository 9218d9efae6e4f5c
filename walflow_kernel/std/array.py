"""std::array."""

from collections.abc import Mapping
from typing import TypeGuard

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function, too_long
from walflow_kernel.text import spliced
from walflow_kernel.values import LONGEST, equal, is_out_of_range, kind_of, out_of_range

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
    """All items must be of one kind: there is no order between kinds."""
    if any(map(is_out_of_range, array)):
        raise out_of_range()
    kinds = set(map(type, array))
    if not (kinds <= {int, float} or kinds <= {str}):
        raise CannotApply("it takes an array of numbers or of strings")
    return sorted(array)  # type: ignore[type-var]  # all have an order, as has been seen


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
}
