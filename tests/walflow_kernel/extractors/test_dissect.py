"""`dissect`: fields, paddings and what is between them."""

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.extractors import NO_MATCH, extractor


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("%{name}}%{age}", "John}22", {"name": "John", "age": "22"}),
        ("%{name}%%{age}", "John%22", {"name": "John", "age": "22"}),
        ("%{name}%%{age}", "John}22", None),
        (".%{name}", "John", None),
        ("%{name}bar", "Johnbar", {"name": "John"}),
        ("%{name} bar", "John bar.", None),
        ("a %{what}%{_}case", "a test  case", {"what": "test"}),
        ("%{what}%{_}case", "testcase", {"what": "test"}),
        ("%{name}%{_}%{_(|)}%{age}", "John 22", {"name": "John", "age": "22"}),
        ("%{name}%{_}%{_(|)}%{age}", "John  ||22", {"name": "John", "age": "22"}),
        ("%{name}%{_}%{_(|)}%{age}", "John22", None),
        ("%{name}%{_}%{_(|)}/%{age}", "John ||/22", {"name": "John", "age": "22"}),
        ("%{name}%{_}|%{age}", "John|22", {"name": "John", "age": "22"}),
        ("%{a}%{_}", "this   ", {"a": "this"}),
        ("%{a}%{_}", "this", {"a": "this"}),
        ("%{a}%{_}", "this is", None),
        ("%{a}%{_(ab)}c", "xababc", {"a": "x"}),
        ("%{_}%{a}", "  x", {"a": "x"}),
        ("%{+name} %{+name} %{age}", "John Doe 22", {"name": "John Doe", "age": "22"}),
        ("%{+name} %{age} %{+name}", "John 22 Doe", {"name": "John Doe", "age": "22"}),
        ("%{+a} %{+b}|%{+a} %{+b}", "1 2|3 4", {"a": "1 3", "b": "2|4"}),
        ("%{?a} %{b}", "x y", {"b": "y"}),
        ("%{} %{b}", "x y", {"b": "y"}),
        ("%{?a}: %{&a}", "x: y", {"x": "y"}),
        ("%{a}: %{&a}", "x: y", {"a": "x", "x": "y"}),
        ("%{a:int} %{b:float} %{c:string}", "-1 1e3 1", {"a": -1, "b": 1000.0, "c": "1"}),
        ("%{a:int}", "1.5", None),
        ("%{a:float}", "x", None),
        ("%{a:int}", "99999999999999999999", None),
        ("%{ a : int }", "1", {"a": 1}),
        ("%{a},%{b}", ",", {"a": "", "b": ""}),
        ("%{_(})}%{a}", "}}x", {"a": "x"}),
        ("text", "text", {}),
        ("text", "texts", None),
        ("", "", {}),
        ("", "x", None),
    ],
)
def test_what_it_finds(pattern: str, text: str, found: object) -> None:
    assert extractor("dissect", pattern)(text) == (NO_MATCH if found is None else found)


@given(st.lists(st.text(st.characters(exclude_characters=", ", codec="utf-8"), max_size=6), min_size=1, max_size=5))
def test_what_was_joined_is_parted(parts: list[str]) -> None:
    pattern = ", ".join(f"%{{f{number}}}" for number in range(len(parts)))
    assert extractor("dissect", pattern)(", ".join(parts)) == {f"f{number}": one for number, one in enumerate(parts)}
