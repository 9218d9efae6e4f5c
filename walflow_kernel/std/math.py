"""std::math."""

import math
from collections.abc import Callable, Mapping

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function

Number = int | float


def _rounded(how: Callable[[float], int]) -> Callable[[Number], int]:
    def rounded(n: Number) -> int:
        if isinstance(n, int):
            return n
        if not math.isfinite(n):
            raise CannotApply(f"{n} has no whole number beside it")
        return how(n)

    return rounded


def _half_away(n: float) -> int:
    """Halves are rounded away from zero, as in tremor. Python's own rounding goes to the even number."""
    whole = math.floor(abs(n))
    whole += abs(n) - whole >= 0.5
    return whole if n >= 0 else -whole


def maximum(n1: Number, n2: Number) -> Number:
    return max(n2, n1)


def minimum(n1: Number, n2: Number) -> Number:
    return min(n2, n1)


FUNCTIONS: Mapping[str, Function] = {
    "floor": function(_rounded(math.floor)),
    "ceil": function(_rounded(math.ceil)),
    "round": function(_rounded(_half_away)),
    "trunc": function(_rounded(math.trunc)),
    "max": function(maximum),
    "min": function(minimum),
}
