"""std::random: drawn anew at each call, from the system's entropy once a process."""

import math
import string as letters
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from walflow.expr.functions import Function, function, too_long
from walflow.expr.operators import LONGEST, CannotApply

_random: Final = Random()
_ALPHANUMERIC: Final = letters.ascii_letters + letters.digits
_BITS: Final = 63


def boolean() -> bool:
    return _random.random() < 0.5


def string(length: int) -> str:
    if length < 0:
        raise CannotApply(f"it takes a length from 0 on, not {length}")
    if length > LONGEST:
        raise too_long()
    return "".join(_random.choices(_ALPHANUMERIC, k=length))


def integer(*bounds: int) -> int:
    low, high = _between(bounds) if bounds else (-(1 << _BITS), 1 << _BITS)
    return _random.randrange(int(low), int(high))


def float_(*bounds: float) -> float:
    low, high = _between(bounds or (1.0,))
    try:
        drawn = low + (high - low) * _random.random()
    except OverflowError:
        drawn = math.inf
    if not math.isfinite(drawn):  # from -1e308 to 1e308; and 1e999 of JSON is a number
        raise CannotApply("these bounds are out of range")
    return float(drawn if drawn < high else low)  # rounding may reach what is not to be reached


def _between(bounds: Sequence[int | float]) -> Sequence[int | float]:
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    if low >= high:
        raise CannotApply(f"there is nothing from {low} to below {high}")
    return low, high


FUNCTIONS: Mapping[str, Function] = {
    "bool": function(boolean, "call"),
    "string": function(string, "call"),
    "integer": function(integer, "call", most=2),
    "float": function(float_, "call", most=2),
}
