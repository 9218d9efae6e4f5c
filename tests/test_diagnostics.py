import time

import pytest

from walflow.diagnostics import (
    MOST_SHOWN,
    Source,
    Span,
    did_you_mean,
    error,
    in_order,
    one_of,
    render,
    render_all,
)
from walflow.warnings import warning
from walflow.warnings.unused import UNUSED


def span(text: str, part: str, name: str = "main.troy", order: int = 0) -> Span:
    begin = text.index(part)
    return Span(Source(name, text, order), begin, begin + len(part))


@pytest.mark.parametrize(
    ("text", "part", "line", "under"),
    [
        ("one\ntwo three\nfour", "three", "    2 | two three", "      |     ^^^^^"),
        ("\ttwo three", "three", "    1 |  two three", "      |      ^^^^^"),
        ("日本 three", "three", "    1 | 日本 three", "      |      ^^^^^"),
        ("e\u0301 three", "three", "    1 | e\u0301 three", "      |   ^^^^^"),
        ('"日本"', "日本", '    1 | "日本"', "      |  ^^^^"),
        ("one\r\ntwo\r\n", "two", "    2 | two", "      | ^^^"),
        ("one {\n  two\n}", "{\n  two\n}", "    1 | one {", "      |     ^"),
        ("one", "", "    1 | one", "      | ^"),
        ("a\x1b[31m b", "b", "    1 | a\N{REPLACEMENT CHARACTER}[31m b", "      |        ^"),
    ],
)
def test_the_caret_stands_under_the_place(text: str, part: str, line: str, under: str) -> None:
    assert render(error("no", span(text, part))).splitlines()[1:] == [line, under]


def test_a_long_line_is_shown_around_the_place() -> None:
    lines = render(error("no", span("x" * 1000 + "here" + "y" * 1000, "here"))).splitlines()
    assert lines[0] == "main.troy:1:1001: error: no"
    assert max(len(line) for line in lines) < 180
    at = lines[2].index("^")
    assert lines[1][at : at + 4] == "here"


def test_without_a_place() -> None:
    assert render(error("cannot read a.troy", hint="look elsewhere")) == (
        "error: cannot read a.troy\n      = look elsewhere"
    )


def test_by_file_and_place_each_once() -> None:
    first, second = span("a b", "b", "z.troy", 0), span("a b", "a", "a.troy", 1)
    found = [error("3", second), warning(UNUSED, "2", first), error("1"), warning(UNUSED, "2", first)]
    assert [diagnostic.message for diagnostic in in_order(found)] == ["1", "2", "3"]


def test_suggestions() -> None:
    assert did_you_mean("buf_sise", ["url", "buf_size"]) == "did you mean `buf_size`?"
    assert did_you_mean("elsewhere", ["url", "buf_size"]) is None
    assert one_of(["a"]) == "`a`"
    assert one_of(["a", "b", "c"]) == "`a`, `b` or `c`"


def test_a_span_reads_as_its_place() -> None:
    place = span("one\n  two", "two")
    assert str(place) == "main.troy:2:3"
    assert repr(place) == "<Span main.troy:2:3 'two'>"
    assert str(warning(UNUSED, "odd", place)) == "main.troy:2:3: warning: odd"


@pytest.mark.parametrize(
    "line",
    [
        '"key_password": "hunter2", "url": 12',
        '"token" = "hunter2", "url": 12',
        'client_secret: "hunt\\"er2", "url": 12',
    ],
)
def test_a_secret_on_the_line_of_a_mistake_is_not_shown(line: str) -> None:
    source = Source("flow.troy", line)
    at = line.index("12")
    shown = render(error("mistyped", Span(source, at, at + 2)))
    assert "er2" not in shown
    assert shown.splitlines()[1].endswith('"url": 12')
    assert shown.splitlines()[2].index("^") == shown.splitlines()[1].index("12")


def test_of_many_the_first_are_shown_errors_before_warnings() -> None:
    text = "x" * 20_000
    source = Source("main.troy", text)
    found = [
        *(warning(UNUSED, "odd", Span(source, at, at + 1)) for at in range(10_000)),
        *(error("no", Span(source, at, at + 1)) for at in range(10_000, 10_010)),
    ]
    lines = render_all(found).splitlines()
    assert sum(": error: no" in line for line in lines) == 10
    assert sum(": warning: odd" in line for line in lines) == MOST_SHOWN - 10
    assert lines[-1] == f"… and {10_010 - MOST_SHOWN} more: these are the first {MOST_SHOWN}"


def test_a_line_of_nothing_but_a_secrets_name_is_shown_at_once() -> None:
    text = "password" * 50_000
    started = time.process_time()
    render(error("no", span(text, "password")))
    assert time.process_time() - started < 5
