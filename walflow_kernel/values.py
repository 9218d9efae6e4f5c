"""What a value is, and how two values compare.

A value is None, bool, int, float, str, bytes, list or dict (with keys that are str), of exactly these types. Integers
are between -2^63 and 2^64-1, floats are finite. JSON may contain other numbers: they become an OutOfRange, or a
larger int. Such a number passes unless an expression reads it or a codec writes it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

from walflow_kernel.errors import CannotApply

LEAST: Final = -(1 << 63)
MOST: Final = (1 << 64) - 1
LONGEST: Final = 1 << 20  # the most characters or items that one operator or function may make
EPSILON: Final = 2.0**-52  # numbers that are closer count as equal if one is a float, as in tremor
TOO_DEEP: Final = "nested too deep"


class OutOfRange:
    """A number in JSON that is neither a float nor an integer of 64 bits, for example 1e400. No operator and no codec
    accepts it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<OutOfRange {self.text[:40]}>"


def kind_of(value: object) -> str:
    """In the words of a message: `a string`."""
    kind = exact(value)
    if kind is bool:
        return "true" if value else "false"
    if is_out_of_range(value):
        return "a number out of range"
    return _KINDS.get(kind, kind.__name__)


def is_out_of_range(value: object) -> bool:
    """Whether the value is a number that is too large. The inside of a record or an array is not checked."""
    if type(value) is int:
        return not LEAST <= value <= MOST
    return type(value) is OutOfRange


def equal(left: object, right: object) -> bool:
    """As in tremor: integers exactly, other numbers within an epsilon, a string as its bytes. true is no number."""
    kind, other = exact(left), exact(right)
    if kind is dict and other is dict:
        return _same_records(left, right)
    if kind is list and other is list:
        return _same_arrays(left, right)
    if kind is OutOfRange or other is OutOfRange or (kind is int and is_out_of_range(left)):
        raise out_of_range()
    if other is int and is_out_of_range(right):
        raise out_of_range()
    if kind is not other:
        return _same_of_two_kinds(left, right)
    if kind is float:
        return left == right or abs(left - right) < EPSILON  # type: ignore[operator]  # both are floats
    return left == right


def _same_of_two_kinds(left: Any, right: Any) -> bool:
    kinds = {exact(left), exact(right)}
    if kinds == {int, float}:
        return bool(abs(float(left) - float(right)) < EPSILON)
    if kinds == {str, bytes}:
        return as_bytes(left) == as_bytes(right)
    return False


def _same_records(left: Any, right: Any) -> bool:
    return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())


def _same_arrays(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(equal, left, right))


def as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode(errors="surrogatepass")


def out_of_range() -> CannotApply:
    return CannotApply("a number out of range: whole numbers reach from -2^63 to 2^64-1")


def complaint(value: object) -> str | None:
    """The reason why no codec can write the value. None: it can be written, unless it nests too deep."""
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if is_record(one):
            if any(type(key) is not str for key in one):
                return "a key that is no string"
            waiting += one  # its keys, which must be text
            waiting += one.values()
        elif is_array(one):
            waiting += one
        elif reason := _complaint_of(one):
            return reason
    return None


def _complaint_of(value: object) -> str | None:
    kind = exact(value)
    if is_out_of_range(value):
        return str(out_of_range())
    if kind is float and not math.isfinite(value):  # type: ignore[arg-type]  # it is a float
        return "infinity or NaN"
    if kind is str and not _is_text(value):
        return "a character that UTF-8 cannot hold"
    return None if kind in _JSON else kind_of(value)


def _is_text(value: Any) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def is_number(value: object) -> TypeGuard[int | float]:
    return exact(value) is int or exact(value) is float


def is_whole(value: object) -> TypeGuard[int]:
    return exact(value) is int


def is_record(value: object) -> TypeGuard[dict[str, object]]:
    return exact(value) is dict


def is_array(value: object) -> TypeGuard[list[object]]:
    return exact(value) is list


exact: Callable[[object], type] = type  # exact types: true is no number
_JSON: Final = frozenset({type(None), bool, int, float, str, list, dict})
_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    int: "a whole number",
    float: "a decimal number",
    str: "a string",
    bytes: "binary data",
    list: "an array",
    dict: "a record",
}
