"""JSON as a case compares it: the order of a record's members does not matter, 1 is not 1.0,
and no number is too large."""

import json
import math
from typing import Union, cast


class JsonNumber(str):
    """A number, as it is written."""

    __slots__ = ()


Json = Union[None, bool, JsonNumber, str, list["Json"], dict[str, "Json"]]  # noqa: UP007 - it names itself


def value_of(text: bytes) -> Json:
    """Raises ValueError (JSONDecodeError, UnicodeDecodeError) or RecursionError."""
    return cast(
        Json, json.loads(text.decode(), parse_float=_decimal, parse_int=JsonNumber, parse_constant=_no_constant)
    )


def _decimal(text: str) -> JsonNumber:
    number = float(text)
    return JsonNumber(repr(number) if math.isfinite(number) else text)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def canonical(value: Json) -> str:
    """One text for all that is equal."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        members = sorted((json.dumps(key, ensure_ascii=False), canonical(one)) for key, one in value.items())
        return "{" + ", ".join(f"{key}: {one}" for key, one in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
