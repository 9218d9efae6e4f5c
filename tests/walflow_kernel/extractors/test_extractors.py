"""All extractors: what the page says of them is true, what they refuse at load, and that no string does any harm."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.compile.world import expression
from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors import NAMES, NO_MATCH, BadExtractor, extractor
from walflow_kernel.extractors.grok import _DEFINED
from walflow_kernel.extractors.rerg import MOST
from walflow_kernel.values import complaint

PAGE = Path(__file__).parents[3].joinpath("docs/reference/extractors.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r'^(".*") ~= (\w+)\|(.*)\|\n    (.+)$', re.MULTILINE)
WRITTEN = re.findall(r"^```tremor\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [match.groups() for match in EXAMPLE.finditer(PAGE)]
ARGUMENTS = {  # one for each that has something to do
    "base64": "",
    "cidr": "",
    "datetime": "%a, %e %b %Y %T%.f %#z",
    "dissect": "%{a}%{_}%{?b}: %{&b}[%{c}]%{_( -)}%{+a}%{_}",
    "glob": "*[a-z]?*[!0-9]",
    "grok": "%{COMBINEDAPACHELOG}|%{SYSLOGLINE}|%{IP:a}|%{URI:a}|%{QS:a}",
    "influx": "",
    "json": "",
    "kv": r"%{key}=%{val}&%{key}:%{val}\n",
    "re": "(?P<a>(a+)+)(?P<b>.*)$",
    "rerg": "(?P<a>a+)(?P<b>b)?",
}


@pytest.mark.parametrize(("text", "name", "argument", "gives"), EXAMPLES)
def test_the_examples_of_the_page_are_true(text: str, name: str, argument: str, gives: str) -> None:
    found = extractor(name, argument)(json.loads(text))
    assert found == (NO_MATCH if gives == "no match" else json.loads(gives))


@pytest.mark.parametrize(
    ("event", "gives"), [({"line": "WARN: disk"}, "WARN"), ({"line": "warn"}, "none"), ("[1]", [1]), ("[", "none")]
)
def test_the_match_of_the_page(event: object, gives: object) -> None:
    assert expression(WRITTEN[0]).evaluate(event, {}) == gives


def test_the_lines_of_the_page() -> None:
    assert expression(WRITTEN[1]).evaluate({"line": "INFO: begun"}, {}) == "a line of a log"
    assert expression(WRITTEN[1]).evaluate({"line": "begun"}, {}) == "none"


def test_the_page_has_a_section_and_an_example_of_each() -> None:
    assert {name for _, name, _, _ in EXAMPLES} == set(NAMES) == set(ARGUMENTS)
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(NAMES)
    listed = PAGE.partition("<!-- the patterns -->")[2].partition("<!-- end -->")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted(_DEFINED)


def _names(pattern: str) -> list[str]:
    """Those that it makes, in their order."""
    found: list[str] = []
    for of, _, name in re.findall(r"%\{(\w+)(:(\w+))?\}", _DEFINED[pattern]):
        found += [name] if name else _names(of)
    return found


def test_the_page_lists_the_names_that_patterns_make() -> None:
    listed = PAGE.partition("<!-- the names -->")[2].partition("<!-- end of the names -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", listed, re.MULTILINE)
    written = {pattern: re.findall(r"`(\w+)`", names) for pattern, names in rows}
    assert written == {pattern: _names(pattern) for pattern in sorted(_DEFINED) if _names(pattern)}


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ('h - - [23/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 304 - "-" "x"', {"bytes", "rawrequest"}),
        ('h - - [23/Nov/2026:09:00:00 +0000] "rubbish" 400 5 "-" "x"', {"verb", "request", "httpversion"}),
    ],
)
def test_a_part_that_is_not_in_the_line_is_left_out(line: str, without: set[str]) -> None:
    found = extractor("grok", "^%{COMBINEDAPACHELOG}")(line)
    assert isinstance(found, dict)
    assert set(_names("COMBINEDAPACHELOG")) - set(found) == without


@pytest.mark.parametrize(
    ("name", "argument", "why"),
    [
        ("groc", "", "there is no extractor `groc`; did you mean `grok`?"),
        ("x", "", "there is no extractor `x`; there are `base64`, `cidr`, "),
        ("base64", "x", "`base64`: it takes nothing between its bars, not `x`"),
        ("json", "x\0" * 40, r"`json`: it takes nothing between its bars, not `'x\x00x"),
        ("influx", " ", "`influx`: it takes nothing between its bars, not ` `"),
        ("cidr", "10.0.0.1/8", "`cidr`: `10.0.0.1/8` is an address within a network: do you mean `10.0.0.0/8`?"),
        ("cidr", "10.0.0.0/8,", "`cidr`: `` is no network: write `10.0.0.0/8` or `fd00::/8`"),
        ("cidr", "10.0.0.0/255.0.0.0", "`cidr`: `10.0.0.0/255.0.0.0` is no network"),
        ("cidr", "fe80::1%eth0", "`cidr`: `fe80::1%eth0` is no network"),
        ("datetime", "%Y-%Q", "`datetime`: `%Q` is no part of a date"),
        ("datetime", "%Y %Z", "`datetime`: the name of a time zone cannot be read"),
        ("datetime", "%" * 1001, "`datetime`: a format has up to 1000 characters"),
        ("dissect", "%{a}%{b}", "`dissect`: nothing separates `a` from `b`"),
        ("dissect", "%{a", "`dissect`: `%{a` is not closed by `}`"),
        ("dissect", "%{_(x}", "`dissect`: `%{_(x}` is not closed by `)}`"),
        ("dissect", "%{_()}", "`dissect`: `%{_()}` has nothing between its parentheses"),
        ("dissect", "%{?}", "`dissect`: `%{?}` has no name"),
        ("dissect", "%{a}%{_} b", "`dissect`: `%{_}` takes each ` `, so none is left for the text that follows it"),
        ("dissect", "%{&a}", "`dissect`: `%{&a}` needs a `%{?a}` before it"),
        ("dissect", "%{a:date}", "`dissect`: `%{a:date}`: a field is `int`, `float` or `string`"),
        ("dissect", "%{a:int:int}", "`dissect`: `%{a:int:int}`: a field is `int`, `float` or `string`"),
        ("dissect", "%{+a:int}", "`dissect`: `%{+a:int}` is added to a string, so it has no type"),
        ("dissect", "%{a:int} %{+a}", "`dissect`: `%{+a}` is added to a string, and `a` is a number"),
        ("glob", "a[b", "`glob`: a `[` without its `]`; the character itself is written `[[]`"),
        ("glob", "[z-a]", "`glob`: the range `z-a` is the wrong way round"),
        ("grok", "%{IPP:a}", "`grok`: there is no pattern `IPP`; did you mean `IP`?"),
        ("grok", "%{WORD:}", "`grok`: `%{WORD:}` has no field of such a name"),
        ("grok", "%{WORD:a:int}", "`grok`: `%{WORD:a:int}` has no field of such a name"),
        ("grok", "%{}", "`grok`: `%{}` is written `%{NAME}` or `%{NAME:field}`"),
        ("grok", "(?<>a)", "`grok`: a group `(?<>…)` has no name"),
        ("grok", "(?=a)", "`grok`: the pattern cannot be read: invalid perl operator: (?="),
        ("grok", "%{IPV6}" * 100, "`grok`: it makes a regular expression longer than 65536"),
        ("grok", r"%{WORD}\pL{999}", "`grok`: the pattern cannot be read: pattern too large"),
        ("kv", "%{key}=", "`kv`: behind a `%{key}` stands its `%{val}`, as in `%{key}=%{val}`"),
        ("kv", "%{key}%{val}", "`kv`: nothing separates `%{key}` from `%{val}`: write `%{key}=%{val}`"),
        ("kv", "%{key} %{val} ", "`kv`: the separator ` ` is also another separator"),
        ("kv", "%{key}=%{val}&=", "`kv`: the separator `=` is also part of `&=`, which is another separator"),
        ("kv", r"\q", r"`kv`: `\q` is no separator"),
        ("re", "(", "`re`: the pattern cannot be read: missing ): ("),
        ("re", r"(a)\1", "`re`: the pattern cannot be read: invalid escape sequence: \\1"),
        ("re", "(?P<a>x)(?P<a>y)", "`re`: two groups are called `a`"),
        ("rerg", r"\pL{999}", "`rerg`: the pattern cannot be read: pattern too large"),
        ("re", "\ud800", "`re`: a character that UTF-8 cannot hold"),
    ],
)  # fmt: skip
def test_what_is_refused_at_load(name: str, argument: str, why: str) -> None:
    with pytest.raises(BadExtractor) as refused:
        extractor(name, argument)
    assert str(refused.value).startswith(why)


@given(st.sampled_from(NAMES), st.text(alphabet="%{}_()+?&:ak=[]!-*\\|/0aYmdHMSz.,<>P# \n\ud800é", max_size=24))
def test_an_argument_is_taken_or_refused(name: str, argument: str) -> None:
    try:
        made = extractor(name, argument)
    except BadExtractor:
        return
    for text in ("", "a", argument, "a=a&b:b 1/2[3]"):
        made(text)


@given(
    st.sampled_from(NAMES),
    st.text(st.characters(exclude_categories=["Cs"])) | st.text(alphabet='aB0 =&:,.\\"/[]-+{}<>\n%TZi\ud800é'),
)
def test_any_string_gives_a_value_or_no_match(name: str, text: str) -> None:
    found = extractor(name, ARGUMENTS[name])(text)
    # JSON brings numbers that are out of range, and half of a surrogate pair: errors where they are read or written
    if found is not NO_MATCH and name != "json" and "\ud800" not in text:
        assert complaint(found) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, True, 1, 1.5, b"a=1", ["a"], {"a": 1}])
def test_anything_but_a_string_is_no_match(name: str, value: Any) -> None:
    assert extractor(name, ARGUMENTS[name])(value) is NO_MATCH


@pytest.mark.alone
@pytest.mark.parametrize("name", NAMES)
def test_time_is_in_proportion_to_the_string(name: str) -> None:
    """Ten times the string takes about ten times the time: what is quadratic takes a hundred times."""
    made = extractor(name, ARGUMENTS[name])
    for piece in ("a", "1", " ", ",a=1", "\\", '"', "{", "[", "a=b&", "a: ", "::1:", "/", "Mar 7 ", "- ", "é"):
        short, long = (min(_seconds(made, f"a {piece * count}!") for _ in range(3)) for count in (1_500, 15_000))
        assert long < max(0.02, 40 * short), piece


def _seconds(made: Any, text: str) -> float:
    began = time.process_time()
    try:
        made(text)
    except CannotApply:
        pass
    return time.process_time() - began


def test_what_would_be_too_large_is_an_error_of_the_event() -> None:
    made = extractor("rerg", "(?P<a>x)")
    assert made("x" * MOST) == {"a": ["x"] * MOST}
    with pytest.raises(CannotApply, match="`rerg` finds more than 65536 matches"):
        made("x" * (MOST + 1))


def test_what_a_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("walflow_kernel.extractors.glob", "walflow_kernel.extractors.re", "walflow_kernel.std.re"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(
        BadExtractor, match="the extractor `glob` needs the package google-re2, which is not installed"
    ):
        extractor("glob", "*")
    assert extractor("kv", "")("a:b") == {"a": "b"}
