"""The full definition of each operator. Generated code contains the most common case of most operators, and calls
these for the others. Nothing is converted silently. A result that is no value (see `values`) is an error."""

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeGuard

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import (
    LEAST,
    LONGEST,
    MOST,
    as_bytes,
    equal,
    exact,
    is_number,
    is_out_of_range,
    is_whole,
    kind_of,
    out_of_range,
)

Operator = Callable[[object, object], object]

_BITS: Final = 64


def boolean(symbol: str, value: object) -> bool:
    """The second side of `and` or `or`, if the first side did not decide."""
    if not isinstance(value, bool):
        raise CannotApply(f"`{symbol}` cannot be applied to {kind_of(value)}")
    return value


def unary(symbol: str, value: object) -> object:
    if symbol in {"not", "!"} and isinstance(value, bool):
        return not value
    if is_out_of_range(value):
        raise out_of_range()
    if symbol == "-" and is_number(value):
        return _result(symbol, -value)
    if symbol == "+" and is_number(value):
        return value
    if symbol == "!" and is_whole(value):
        return MOST - value if value >= 0 else ~value  # the bits of a number without a sign, as in tremor
    raise CannotApply(f"`{symbol}` cannot be applied to {kind_of(value)}")


def binary(symbol: str, left: object, right: object) -> object:
    return BINARY[symbol](left, right)


def unequal(left: object, right: object) -> bool:
    return not equal(left, right)


def xor(left: object, right: object) -> bool:
    """Always looks at both sides. `and` and `or` do not look at the second side if the first one decides; generated
    code contains them."""
    if isinstance(left, bool) and isinstance(right, bool):
        return left != right
    raise _refused("xor", left, right)


def _ordered(symbol: str, compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    if is_out_of_range(left) or is_out_of_range(right):
        raise out_of_range()
    if is_number(left) and is_number(right):
        return compare(left, right)
    if _is_text(left) and _is_text(right):
        # as strings or as bytes: UTF-8 has the same order as its characters
        return compare(left, right) if exact(left) is exact(right) else compare(as_bytes(left), as_bytes(right))
    raise _refused(symbol, left, right)


def add(left: Any, right: Any) -> object:
    if exact(left) is dict and exact(right) is dict:
        return {**left, **right}
    if exact(left) is exact(right) and exact(left) in {str, list}:
        if len(left) + len(right) > LONGEST:
            raise CannotApply(f"`+` would make something longer than {LONGEST}")
        return left + right
    return _arithmetic("+", operator.add, left, right)


def _arithmetic(symbol: str, apply: Callable[[Any, Any], object], left: object, right: object) -> object:
    if is_out_of_range(left) or is_out_of_range(right):
        raise out_of_range()
    if not (is_number(left) and is_number(right)):
        raise _refused(symbol, left, right)
    try:
        return _result(symbol, apply(left, right))
    except ZeroDivisionError:
        raise CannotApply("division by zero") from None
    except OverflowError:
        raise _beyond(symbol) from None


def _of_whole(symbol: str, apply: Callable[[int, int], int], left: object, right: object) -> object:
    if symbol in _LOGICAL and isinstance(left, bool) and isinstance(right, bool):
        return _LOGICAL[symbol](left, right)
    if is_out_of_range(left) or is_out_of_range(right):
        raise out_of_range()
    if not (is_whole(left) and is_whole(right)):
        raise _refused(symbol, left, right)
    try:
        return _result(symbol, apply(left, right))
    except ZeroDivisionError:
        raise CannotApply("division by zero") from None


def _shifted(symbol: str, apply: Callable[[int, int], int], left: object, right: object) -> object:
    if is_whole(right) and is_whole(left) and not 0 <= right < _BITS:
        raise CannotApply(f"`{symbol}` shifts by 0 to 63 bits, not by {right}")
    return _of_whole(symbol, apply, left, right)


def _remainder(left: int, right: int) -> int:
    return abs(left) % abs(right) * (-1 if left < 0 else 1)  # the sign of the dividend, as in tremor


def _left(number: int, by: int) -> int:
    """Within 64 bits: bits that are shifted out are lost. A negative number keeps its sign and 63 bits."""
    bits = number << by & MOST
    return bits if number >= 0 or bits <= -LEAST - 1 else bits - (1 << _BITS)


def _right_unsigned(number: int, by: int) -> int:
    """Zeros come in from the left, so a negative number becomes a large positive one."""
    return number if by == 0 else (number & MOST) >> by


def _result(symbol: str, result: Any) -> object:
    kind = exact(result)
    if kind is int:
        if LEAST <= result <= MOST:
            return result
    elif math.isfinite(result):
        return result
    raise _beyond(symbol)


def _beyond(symbol: str) -> CannotApply:
    return CannotApply(f"the result of `{symbol}` is out of range")


def _is_text(value: object) -> TypeGuard[str | bytes]:
    return exact(value) is str or exact(value) is bytes


def _refused(symbol: str, left: object, right: object) -> CannotApply:
    return CannotApply(f"`{symbol}` cannot be applied to {kind_of(left)} and {kind_of(right)}")


def _both(symbol: str, left: object, right: object) -> bool:
    """`and`, `or` of two known values."""
    if isinstance(left, bool) and isinstance(right, bool):
        return left and right if symbol == "and" else left or right
    raise _refused(symbol, left, right)


_LOGICAL: Final[Mapping[str, Callable[[bool, bool], bool]]] = {
    "&": lambda left, right: left & right,
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
}

BINARY: Final[Mapping[str, Operator]] = {
    "and": partial(_both, "and"),
    "or": partial(_both, "or"),
    "xor": xor,
    "==": equal,
    "!=": unequal,
    "<": partial(_ordered, "<", operator.lt),
    "<=": partial(_ordered, "<=", operator.le),
    ">": partial(_ordered, ">", operator.gt),
    ">=": partial(_ordered, ">=", operator.ge),
    "+": add,
    "-": partial(_arithmetic, "-", operator.sub),
    "*": partial(_arithmetic, "*", operator.mul),
    "/": partial(_arithmetic, "/", lambda left, right: left / right),
    "%": partial(_of_whole, "%", _remainder),
    "&": partial(_of_whole, "&", lambda left, right: left & right),
    "|": partial(_of_whole, "|", lambda left, right: left | right),
    "^": partial(_of_whole, "^", lambda left, right: left ^ right),
    "<<": partial(_shifted, "<<", _left),
    ">>": partial(_shifted, ">>", lambda left, right: left >> right),
    ">>>": partial(_shifted, ">>>", _right_unsigned),
}
