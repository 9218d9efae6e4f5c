"""std::range."""

from collections.abc import Mapping
from typing import TypeGuard

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.values import LONGEST


def between(a: int, b: int) -> list[int]:
    if b - a > LONGEST:
        raise CannotApply(f"it would make something longer than {LONGEST}")
    return list(range(a, b))


def contains(r: list[object], n: float) -> bool:
    if not r:
        return False
    first, last = r[0], r[-1]
    if not (_is_number(first) and _is_number(last)):
        raise CannotApply("`r` is no range of numbers")
    return first <= n <= last


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


FUNCTIONS: Mapping[str, Function] = {"range": function(between, grows=True), "contains": function(contains)}
