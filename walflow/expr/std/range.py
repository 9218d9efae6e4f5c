"""std::range."""

from collections.abc import Mapping

from walflow.expr.functions import Function, function
from walflow.expr.operators import LONGEST, CannotApply


def between(a: int, b: int) -> list[int]:
    if b - a > LONGEST:
        raise CannotApply(f"it would make something longer than {LONGEST}")
    return list(range(a, b))


def contains(r: list[object], n: float) -> bool:
    if not r:
        return False
    first, last = r[0], r[-1]
    if not (type(first) in {int, float} and type(last) in {int, float}):
        raise CannotApply("`r` is no range of numbers")
    return first <= n <= last  # type: ignore[operator]  # they are numbers, by their exact types


FUNCTIONS: Mapping[str, Function] = {"range": function(between), "contains": function(contains)}
