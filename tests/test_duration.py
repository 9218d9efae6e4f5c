"""Durations in configurations."""

import pytest
from pydantic import TypeAdapter, ValidationError

from walflow import Duration

ADAPTER = TypeAdapter[int](Duration)


@pytest.mark.parametrize(
    ("given", "ns"),
    [("24h", 86_400 * 10**9), ("90 s", 90 * 10**9), ("5ms", 5 * 10**6), ("7d", 604_800 * 10**9), (7, 7)],
)
def test_a_string_or_nanoseconds(given: object, ns: int) -> None:
    assert ADAPTER.validate_python(given) == ns


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a day", 'a string as "24h", not "a day"'),
        ("24", 'a string as "24h", not "24"'),
        ("3w", "`w` is no unit of time; there are ms, s, m, h, d"),
        ("-1h", 'not "-1h"'),
    ],
)
def test_what_is_none_says_what_to_write(given: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ADAPTER.validate_python(given)
