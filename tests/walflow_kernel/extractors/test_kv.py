"""`kv`: separators, escapes, and what is no pair."""

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.extractors import NO_MATCH, extractor

words = st.text(st.characters(codec="utf-8", exclude_characters="=&"), max_size=6)


@pytest.mark.parametrize(
    ("argument", "text", "found"),
    [
        ("", "a:b c:d", {"a": "b", "c": "d"}),
        (" ", "a:b c:d", {"a": "b", "c": "d"}),
        ("%{key}:%{val}", "a:b c:d", {"a": "b", "c": "d"}),
        (" %{key}:%{val}", "a:b c:d", {"a": "b", "c": "d"}),
        ("%{key}:%{val} %{key}:%{val} %{key}:%{val}", "a:b c:d", {"a": "b", "c": "d"}),
        ("&", "a:b&c:d e", {"a": "b", "c": "d e"}),
        ("%{key}=%{val}", "this=is a=test", {"this": "is", "a": "test"}),
        ("%{key}=%{val};%{key}:%{val} ", "this=is;a=test for:all", {"this": "is", "a": "test", "for": "all"}),
        ("%{key}%{%{val}", "this%{is a%{test", {"this": "is", "a": "test"}),
        ("%{key}%{key}%{val}", "this%{key}is a%{key}test", {"this": "is", "a": "test"}),
        (r"%{key}=%{val}\n", "a=b\nc=d e", {"a": "b", "c": "d e"}),
        (r"%{key}\t%{val}\r", "a\tb\rc\td", {"a": "b", "c": "d"}),
        (r"%{key}\\%{val}", "a\\b", {"a": "b"}),
        ("%{key}=%{val}&", "a=1&&b&c=x=y&=e&f=", {"a": "1", "": "e", "f": ""}),
        ("%{key}=%{val}&", "a=1&a=2", {"a": "2"}),
        ("", "a", None),
        ("", "", None),
        ("", "a:b:c", None),
    ],
)
def test_what_it_finds(argument: str, text: str, found: object) -> None:
    assert extractor("kv", argument)(text) == (NO_MATCH if found is None else found)


@given(st.dictionaries(words, words, min_size=1, max_size=6))
def test_what_was_joined_is_parted(pairs: dict[str, str]) -> None:
    text = "&".join(f"{key}={value}" for key, value in pairs.items())
    assert extractor("kv", "%{key}=%{val}&")(text) == pairs
