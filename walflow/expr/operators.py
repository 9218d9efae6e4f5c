"""What the operators mean. Whole numbers have any size; nothing is converted silently."""

import json
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeGuard

import orjson

from walflow.expr.constant import kind_of

LONGEST = 1 << 20  # characters or items that `+` may make
WIDEST = 14_000  # bits of a whole number; Python refuses to print one of more than 4,300 digits


class CannotEvaluate(Exception):
    """An expression has no value. Its text says why."""


class CannotApply(CannotEvaluate):
    """These operands have no such operation."""


def binary(symbol: str, left: object, right: object) -> object:
    if symbol in {"and", "or", "xor"}:
        return _logical(symbol, left, right)
    if symbol in {"==", "!="}:
        return equal(left, right) == (symbol == "==")
    if symbol == "+" and type(left) is type(right) and isinstance(left, str | list):
        return _joined(left, right)
    if symbol in _ORDER and isinstance(left, str) and isinstance(right, str):
        return _ORDER[symbol](left, right)
    if symbol in _BITS and isinstance(left, bool) and isinstance(right, bool):
        return _BITS[symbol](left, right)
    return _arithmetic(symbol, left, right)


def function(symbol: str) -> Callable[[object, object], object]:
    """`binary` of one operator, for expressions that are evaluated again and again."""
    match symbol:
        case "==":
            return equal
        case "!=":
            return lambda left, right: not equal(left, right)
        case _ if symbol in _ORDER:
            return partial(_ordered, symbol, _ORDER[symbol])
        case _:
            return partial(binary, symbol)


def against(symbol: str, right: object) -> Callable[[object], object]:
    """`function` with its right side known."""
    apply = function(symbol)
    if symbol in _ORDER and _is_number(right):
        return partial(_ordered_against, _ORDER[symbol], right, apply)
    if symbol in {"==", "!="} and type(right) not in {list, dict}:
        same = _same_as(right)
        return same if symbol == "==" else lambda left: not same(left)
    return lambda left: apply(left, right)


def _ordered_against(
    compare: Callable[[Any, Any], bool], right: float, apply: Callable[[object, object], object], left: object
) -> object:
    kind: type = type(left)
    return compare(left, right) if kind is int or kind is float else apply(left, right)


def _same_as(right: object) -> Callable[[object], bool]:
    if right is None or isinstance(right, bool):
        return lambda left: left is right
    if isinstance(right, int | float):
        return lambda left: left == right and not isinstance(left, bool)
    return lambda left: left == right


def boolean(symbol: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise CannotApply(f"`{symbol}` cannot be applied to {kind_of(value)}")
    return value


def equal(left: object, right: object) -> bool:
    """To Python true == 1, in an array too."""
    if _is_record(left) and _is_record(right):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if _is_array(left) and _is_array(right):
        return len(left) == len(right) and all(map(equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def spliced(value: object) -> str:
    """What `#{value}` is within a string: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits, perhaps deep inside
        return _spliced_large(value)


def joined(parts: Sequence[str]) -> str:
    """A string and what is spliced into it."""
    if sum(map(len, parts)) > LONGEST:
        raise CannotApply(f"`#{{}}` would make something longer than {LONGEST}")
    return "".join(parts)


def _spliced_large(value: object) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise CannotApply(f"`#{{}}`: {kind_of(value)} that JSON cannot hold") from None


def unary(symbol: str, value: object) -> object:
    if symbol == "not" and isinstance(value, bool):
        return not value
    if symbol == "-" and _is_number(value):
        return _negative(value)
    if symbol == "+" and _is_number(value):
        return value
    if symbol == "!" and _is_whole(value):
        return ~value
    raise CannotApply(f"`{symbol}` cannot be applied to {kind_of(value)}")


def _negative(value: float) -> float:
    if not -math.inf < value < math.inf:  # 1e999 of JSON, which would become a plain infinity
        raise CannotApply("the result of `-` is out of range")
    return -value


# Any: both operands have been narrowed to what the function takes, a fact no signature of `operator` carries
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS: dict[str, Callable[[Any, Any], object]] = {
    **_ORDER,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // b if _is_whole(a) and _is_whole(b) and a % b == 0 else a / b,
}
_BITS: dict[str, Callable[[Any, Any], object]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_WHOLE: dict[str, Callable[[Any, Any], object]] = {
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),  # the sign of the dividend, as in tremor
    **_BITS,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    ">>>": lambda a, b: a >> b,  # the same: whole numbers have no width to shift zeros into
}


def _logical(symbol: str, left: object, right: object) -> bool:
    if not (isinstance(left, bool) and isinstance(right, bool)):
        raise _refused(symbol, left, right)
    return {"and": left and right, "or": left or right, "xor": left != right}[symbol]


def _ordered(symbol: str, compare: Callable[[Any, Any], bool], left: object, right: object) -> bool:
    if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
        return compare(left, right)
    raise _refused(symbol, left, right)


def _joined(left: Any, right: Any) -> object:
    if len(left) + len(right) > LONGEST:
        raise CannotApply(f"`+` would make something longer than {LONGEST}")
    return left + right


def _arithmetic(symbol: str, left: object, right: object) -> object:
    if symbol in _NUMBERS and _is_number(left) and _is_number(right):
        apply = _NUMBERS[symbol]
    elif symbol in _WHOLE and _is_whole(left) and _is_whole(right):
        _check_shift(symbol, right)
        apply = _WHOLE[symbol]
    else:
        raise _refused(symbol, left, right)
    try:
        return _bounded(symbol, apply(left, right))
    except ZeroDivisionError:
        raise CannotApply("division by zero") from None
    except OverflowError:
        raise CannotApply(f"the result of `{symbol}` is out of range") from None


def _check_shift(symbol: str, by: int) -> None:
    if symbol in {"<<", ">>", ">>>"} and not 0 <= by < 64:
        raise CannotApply(f"`{symbol}` shifts by 0 to 63 bits, not by {by}")


def _bounded(symbol: str, result: object) -> object:
    if isinstance(result, float) and not math.isfinite(result):
        raise OverflowError
    if isinstance(result, int) and result.bit_length() > WIDEST:
        raise CannotApply(f"the result of `{symbol}` is out of range")
    return result


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_record(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _refused(symbol: str, left: object, right: object) -> CannotApply:
    return CannotApply(f"`{symbol}` cannot be applied to {kind_of(left)} and {kind_of(right)}")
