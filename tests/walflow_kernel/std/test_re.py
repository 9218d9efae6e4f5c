"""RE2 is asked below its wrapper, and says what the wrapper says."""

from typing import Any

import pytest
import re2  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given, strategies as st

from walflow_kernel.std.re import _spans, pattern

_re2: Any = re2
PATTERNS = (
    "",
    "a",
    "^a*$",
    "(a)(b)?",
    r"(?P<first>\w+) (?P<rest>.*)",
    "(?:(x)|(y))+",
    "é(.)",
    r"(?s).*?(b+)",
    r"\b(a|b)",
    "$",
)


class OnlyPublic:
    """A wrapper of another version, whose insides are others."""

    def __init__(self, regex: Any) -> None:
        self.groups = regex.groups
        self.search = regex.search


@given(st.sampled_from(PATTERNS), st.text(alphabet="abxyé \n😀", max_size=12))
def test_below_the_wrapper_is_what_the_wrapper_says(text: str, searched: str) -> None:
    data = searched.encode()
    regex = _re2.compile(text)
    match = regex.search(data)
    expected = None if match is None else [match.span(number) for number in range(regex.groups + 1)]
    assert pattern(text).spans(data) == expected
    assert _spans(OnlyPublic(regex))(data) == expected
    assert pattern(text).is_in(data) == (expected is not None)


@pytest.mark.parametrize("text", PATTERNS)
def test_the_wrapper_is_as_we_know_it(text: str) -> None:
    """Otherwise a match takes twice as long, and nothing says so."""
    assert pattern(text).spans.__name__ == "spans"
