"""std::float. No operator makes NaN or an infinity; msgpack may bring one."""

import math
import re
from collections.abc import Mapping
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function

_LONGEST: Final = 4_000
_decimal = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?", re.ASCII).fullmatch


def parse(text: str) -> float:
    if len(text) > _LONGEST or not _decimal(text):
        raise CannotApply(f"`{text}` is no number" if len(text) <= 40 and text.isprintable() else "this is no number")
    found = float(text)
    if math.isinf(found):
        raise CannotApply(f"`{text}` is out of range" if len(text) <= 40 else "this is out of range")
    return found


def is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def is_nan(number: float) -> bool:
    return not isinstance(number, int) and math.isnan(number)


def is_infinite(number: float) -> bool:
    return not isinstance(number, int) and math.isinf(number)


FUNCTIONS: Mapping[str, Function] = {
    "parse": function(parse),
    "is_finite": function(is_finite),
    "is_nan": function(is_nan),
    "is_infinite": function(is_infinite),
}
