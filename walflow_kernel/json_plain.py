"""JSON by the standard library alone, with the very answers of `json_quick`: for an executor that has neither msgspec
nor orjson. It takes some twenty times as long."""

import json
import math
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, Final

from walflow_kernel.values import LEAST, MOST, OutOfRange, complaint, exact, is_array, is_record

_LONGEST: Final = 4_000  # digits of an integer; Python refuses to read more than 4,300
_SMALLEST: Final = -5  # the exponent down to which msgspec writes no exponent


class RawText:
    """JSON text in the place of a value."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def decode(text: bytes) -> object:
    """Raises ValueError or RecursionError."""
    return json.loads(text.decode(), parse_float=_float, parse_int=_int, parse_constant=_no_constant)


def _float(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else OutOfRange(text)


def _int(text: str) -> object:
    number = int(text) if len(text) < _LONGEST else None
    return number if number is not None and LEAST <= number <= MOST else OutOfRange(text)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no value")


def encode(value: object) -> bytes:
    """Of a value that `complaint` has nothing against. Raises RecursionError."""
    return _text(value).encode()


def encode_sorted(value: object) -> bytes:
    return _text(_in_order(value)).encode()


def encode_lines(values: Sequence[object]) -> bytes:
    return "".join([f"{_text(value)}\n" for value in values]).encode()


def all_hold(values: Sequence[object]) -> bool:
    try:
        return all(type(value) is RawText or (complaint(value) is None and _text(value)) for value in values)
    except RecursionError:
        return False


def raw(text: bytes) -> object:
    return RawText(text.decode())


def is_raw(value: object) -> bool:
    return type(value) is RawText


def raw_lines(data: bytes) -> Sequence[bytes]:
    """It never knows: each text is judged by itself."""
    raise ValueError


def judge(text: bytes) -> None:
    decode(text)


def is_shallow(text: bytes) -> bool:
    return False


def _text(value: Any) -> str:
    """`map` and no comprehensions: each of those would take a level of Python's stack, too."""
    kind = exact(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        return "{" + ",".join(map(_member, value.items())) + "}"
    if kind is list:
        return "[" + ",".join(map(_text, value)) + "]"
    if kind is int:
        return int.__repr__(value)
    if kind is float:
        return _number(value)
    if kind is RawText:
        text: str = value.text
        return text
    return _CONSTANTS[value]


def _member(pair: tuple[str, Any]) -> str:
    return f"{encode_basestring(pair[0])}:{_text(pair[1])}"


def _number(value: float) -> str:
    """As msgspec writes it: `1e16`, not `1e+16`; `0.00001`, not `1e-05`."""
    text = float.__repr__(value)
    digits, e, exponent = text.partition("e")
    if not e:
        return text
    power = int(exponent)
    if power < _SMALLEST or power > 0:
        return f"{digits}e{power}"
    sign = "-" if digits[0] == "-" else ""
    return f"{sign}0.{'0' * (-power - 1)}{digits.lstrip('-').replace('.', '')}"


def _in_order(value: Any) -> Any:
    if is_record(value):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return list(map(_in_order, value)) if is_array(value) else value


_CONSTANTS: Final[dict[object, str]] = {None: "null", True: "true", False: "false"}
