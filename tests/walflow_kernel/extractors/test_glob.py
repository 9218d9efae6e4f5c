"""`glob`: what fits is what fits by Python's fnmatch, which has the same signs."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.extractors import NO_MATCH, BadExtractor, extractor


@given(st.text(alphabet="ab*?[]!-.\\^é", max_size=8), st.text(alphabet="ab*?[]!-.\\^é\n", max_size=6))
def test_it_is_fnmatch(glob: str, text: str) -> None:
    try:
        made = extractor("glob", glob)
    except BadExtractor:  # to fnmatch a lone `[` is the character, and `[b-a]` nothing at all
        return
    assert made(text) == (True if fnmatchcase(text, glob) else NO_MATCH)


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("*", "", True), ("?", "", False), ("?", "é", True), ("a*b*c", "a/x/b\nc", True), ("INFO*", "xINFO", False),
        ("*INFO*", "xINFOx", True), ("[]]", "]", True), ("[!]]", "]", False), ("[!]]", "a", True),
         ("[a-]", "-", True),
        ("[--/]", ".", True), ("[*]", "*", True), ("[*]", "a", False), ("**", "a/b", True), ("a.c", "abc", False),
        ("[[:alpha:]", ":", True), ("(a|b)+$", "(a|b)+$", True), (r"\d", "1", False),
    ],
)  # fmt: skip
def test_what_fits(glob: str, text: str, fits: bool) -> None:
    assert extractor("glob", glob)(text) == (True if fits else NO_MATCH)
