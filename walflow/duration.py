"""Durations in configurations: a number of nanoseconds, or a string as `"24h"`."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator

_UNITS: Final = {
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_FORM: Final = re.compile(r"(\d{1,9}) ?([A-Za-z]{1,3})")


def duration_of(given: object) -> object:
    """Raises ValueError. What is no string is for the validator of numbers."""
    if not isinstance(given, str):
        return given
    form = _FORM.fullmatch(given.strip())
    if form is None:
        raise ValueError(f'it takes a number of nanoseconds, or a string as "24h", not "{given}"')
    if form[2] not in _UNITS:
        raise ValueError(f"`{form[2]}` is no unit of time; there are {', '.join(_UNITS)}")
    return int(form[1]) * _UNITS[form[2]]


Duration = Annotated[int, BeforeValidator(duration_of, json_schema_input_type=int | str)]
