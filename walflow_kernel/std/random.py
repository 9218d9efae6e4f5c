"""std::random: a random number depends on the position of the event, so it is the same when the event comes again."""

import math
import string as letters
from collections.abc import Mapping, Sequence
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function, too_long
from walflow_kernel.moment import Moment
from walflow_kernel.values import LONGEST

_ALPHANUMERIC: Final = letters.ascii_letters + letters.digits
_BITS: Final = 63


def boolean(moment: Moment) -> bool:
    return moment.draw() < 1 << _BITS


def string(moment: Moment, length: int) -> str:
    if length < 0:
        raise CannotApply(f"it takes a length from 0 on, not {length}")
    if length > LONGEST:
        raise too_long()
    return "".join([_ALPHANUMERIC[moment.below(len(_ALPHANUMERIC))] for _ in range(length)])


def integer(moment: Moment, *bounds: int) -> int:
    low, high = _between(bounds) if bounds else (-(1 << _BITS), 1 << _BITS)
    return int(low) + moment.below(int(high) - int(low))


def float_(moment: Moment, *bounds: float) -> float:
    low, high = _between(bounds or (1.0,))
    try:
        drawn = low + (high - low) * moment.random()
    except OverflowError:
        drawn = math.inf
    if not math.isfinite(drawn):  # from -1e308 to 1e308; and 1e999 of JSON is a number
        raise CannotApply("these bounds are out of range")
    return float(drawn if drawn < high else low)  # rounding may reach the bound, which is excluded


def _between(bounds: Sequence[int | float]) -> Sequence[int | float]:
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    if low >= high:
        raise CannotApply(f"there is nothing from {low} to below {high}")
    return low, high


FUNCTIONS: Mapping[str, Function] = {
    "bool": function(boolean, "chance"),
    "string": function(string, "chance", grows=True),
    "integer": function(integer, "chance", most=2),
    "float": function(float_, "chance", most=2),
}
