"""Sizes in configurations: a number of bytes, or a string as `"16MiB"`."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator

_BINARY: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DECIMAL: Final = {
    "B": 1,
    "K": 10**3,
    "KB": 10**3,
    "M": 10**6,
    "MB": 10**6,
    "G": 10**9,
    "GB": 10**9,
    "T": 10**12,
    "TB": 10**12,
}
_UNITS: Final = {unit.lower(): unit for unit in _BINARY}
_FORM: Final = re.compile(r"(\d{1,15}) ?([A-Za-z]{1,3})")


def size_of(given: object) -> object:
    """Raises ValueError. What is no string is for the validator of numbers."""
    if not isinstance(given, str):
        return given
    form = _FORM.fullmatch(given.strip())
    if form is None:
        raise ValueError(f'it takes a number of bytes, or a string as "16MiB", not "{given}"')
    count, unit = int(form[1]), _UNITS.get(form[2].lower(), form[2].upper())
    if unit in _BINARY:
        return count * _BINARY[unit]
    if unit not in _DECIMAL:
        raise ValueError(f"`{form[2]}` is no unit of bytes; there are KiB, MiB, GiB and TiB")
    decimal, binary = count * _DECIMAL[unit], unit[0] + "iB"
    if unit == "B":
        raise ValueError(f'"{given}" is the number {decimal}: write it without quotes')
    raise ValueError(
        f'"{given}" is {decimal:_} bytes: write that number, or "{count}{binary}" for {count * _BINARY[binary]:_}'
    )


Size = Annotated[int, BeforeValidator(size_of)]
