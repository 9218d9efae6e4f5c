"""What the codecs of text share: text from bytes, members of a record by type, numbers."""

import math
import re
from collections.abc import Mapping
from typing import cast

from walflow.errors import CannotDecode, CannotEncode
from walflow_kernel.values import LEAST, MOST, kind_of

_integer = re.compile(r"[+-]?\d{1,20}", re.ASCII).fullmatch
_float = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d{1,4})?", re.ASCII).fullmatch


def text_of(payload: bytes) -> str:
    """Raises CannotDecode."""
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise CannotDecode("not UTF-8") from error


def bytes_of(text: str) -> bytes:
    """Raises CannotEncode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CannotEncode("half of a surrogate pair") from error


def number_of(text: str) -> int | float | None:
    """None: it is no number that an event can have."""
    if _integer(text):
        number = int(text)
        if LEAST <= number <= MOST:
            return number
    if _float(text):
        value = float(text)
        if math.isfinite(value):
            return value
    return None


def record_of(value: object, codec: str) -> Mapping[str, object]:
    """Raises CannotEncode for what is none."""
    if not isinstance(value, dict):
        raise CannotEncode(f"only a record can be written as {codec}, not {kind_of(value)}")
    return cast(Mapping[str, object], value)


def string_in(record: Mapping[str, object], name: str) -> str:
    """Raises CannotEncode where there is none."""
    value = record.get(name)
    if not isinstance(value, str):
        raise CannotEncode(f"{name} is missing" if value is None else f"{name} is {kind_of(value)}, and no string")
    return value


def number_text(value: object, name: str) -> str:
    """Raises CannotEncode for what is no number of an event: infinite, or an integer beyond 64 bits."""
    if (type(value) is float and math.isfinite(value)) or (type(value) is int and LEAST <= value <= MOST):
        return repr(value)
    raise CannotEncode(f"{name} is missing" if value is None else f"{name} is {kind_of(value)}, and no number")
