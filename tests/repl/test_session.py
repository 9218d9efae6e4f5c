"""A session: what stays, what a line gives, where a mistake is."""

import pytest

from walflow.repl import ReplSession, completions


def said(*lines: str, event: str = "{}") -> list[str]:
    """What the lines give, all together."""
    session = ReplSession()
    assert session.feed(f":event {event}").lines == []
    found = [line for one in lines for line in session.feed(one).lines]
    return [*found, *session.end().lines]


ANSWERS: list[tuple[list[str], list[str]]] = [
    (["1 + 1"], ["2"]),
    (["event.a"], ["1"]),
    (["event"], ['{"a":1,"r":{"b":[2]}}']),
    (['"é"'], ['"é"']),
    (["drop"], ["dropped"]),
    (['emit event.a => "other"'], ["other: 1"]),
    (["let x = event.a + 1", "x * 2"], ["4"]),
    (["let event.new = 3; event.new"], ["3"]),
    (["let event.new = 3", "event.new", "let event.new = event.new + 1", "event.new"], ["3", "4"]),
    (["let $.m = 3", "$m"], ["3"]),
    ([':meta {"m": 5}', "$m", ":meta"], ["5", '{"m":5}']),
    (["const two = 2", "two + 1"], ["3"]),
    (["fn twice(n) with n * 2 end", "twice(4)"], ["8"]),
    (["fn f(n) with n * 2 end", "fn f(n) with n * 3 end", "f(4)"], ["12"]),
    (["string::len(type::as_string(event.a))"], ["7"]),
    (["use std::string as s", 's::len("abc")'], ["3"]),
    (["match event of", "case %{a == 1} =>", '"one"', "default => drop", "end"], ['"one"']),
    (["", "   "], []),
    (["1;"], ["1"]),
    (["1 # one"], ["1"]),
    (["let x = 1", ":reset", ":script"], []),
    (["let x = 1", "use std::array", ":script"], ["let x = 1;", "use std::array;"]),
    ([":event [1]", "event[0]", ":event"], ["1", "[1]"]),
    ([":doc string::is_empty"], ["is_empty(text: string) -> bool", "  Whether it is empty.",
     '      string::is_empty("")']),
    (["let state = 5; state + 1"], ["6"]),
    (["<< 1 >>"], ["b'\\x01' (not JSON: binary data)"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "answer"), ANSWERS, ids=lambda one: str(one)[:40])
def test_what_lines_give(lines: list[str], answer: list[str]) -> None:
    assert said(*lines, event='{"a": 1, "r": {"b": [2]}}') == answer


MISTAKES: list[tuple[list[str], str]] = [
    (["event.a"], "repl:1:1: error: `event.a`: a record without `a`\n    1 | event.a\n      | ^^^^^^^"),
    (["let x = 1", "x + event.a"], "repl:2:1: error: `event.a`: a record without `a`"),
    (["1 +", ""], "repl:1:4: error: expected a value, found the end of the file"),
    (["1 +"], "repl:1:4: error: expected a value, found the end of the file"),
    (["match event of", ":event 1"], "repl:1:15: error: expected `case` or `default`, found the end of the file"),
    (["1 2"], "repl:1:3: error: "),
    (["nope"], "repl:1:1: error: unknown constant `nope`"),
    (["let x = nope", "x"], "repl:1:9: error: unknown constant `nope`"),
    (["let x = event.a", "1"], "repl:1:9: error: `event.a`: a record without `a`"),
    (['string::lenn("")'], "repl:2:9: error: unknown function `lenn` in module `string`"),
    ([":event {"], "not JSON: "),
    ([":meta 1"], "metadata is a record"),
    ([":nope"], "there is no :nope; :help lists what there is"),
    ([":doc"], "write the name of a module or a function"),
    ([":doc std::strin"], "there is no module and no type `std::strin`; did you mean `std::string`?"),
    ([":python 1 +"], "repl:1:4: error: "),
]


@pytest.mark.parametrize(("lines", "begin"), MISTAKES, ids=lambda one: str(one)[:40])
def test_mistakes(lines: list[str], begin: str) -> None:
    session = ReplSession()
    answers = [*(session.feed(line) for line in lines), session.end()]
    assert "\n".join(line for answer in answers for line in answer.lines).startswith(begin)
    assert any(answer.failed for answer in answers)


def test_what_failed_does_not_stay() -> None:
    assert said("let x = event.a", ":event {}", "1")[-1] == "1"


def test_a_session_goes_on_behind_an_interrupt() -> None:
    session = ReplSession()
    assert session.feed("1 +").more
    session.interrupt()
    assert session.feed("2").lines == ["2"]


def test_the_source_is_shown() -> None:
    lines = said("event.a > 5", ":python", event='{"a": 1}')
    assert lines[0] == "false"
    assert "def run(" in "\n".join(lines)
    assert "# repl:1: event.a > 5" in "\n".join(lines)


def test_help_names_every_command() -> None:
    help = "\n".join(said(":help"))
    assert all(command in help for command in completions(ReplSession(), ":", ":"))


COMPLETIONS: list[tuple[str, str, list[str]]] = [
    (":e", ":e", [":event"]),
    ("string::is", "string::is", ["string::is_empty("]),
    ("1 + std::string::is", "std::string::is", ["std::string::is_empty("]),
    ("strin", "strin", ["string::"]),
    ("mat", "mat", ["match", "math::"]),
    ("event.", "event.", ["event.a", "event.r"]),
    ("event.r.", "event.r.", ["event.r.b"]),
    ("event.a.", "event.a.", []),
    ("cou", "cou", ["count"]),
    (":doc std::time", "std::time", ["std::time::nanos"]),
    ("zzz", "zzz", []),
]


@pytest.mark.parametrize(("line", "word", "found"), COMPLETIONS)
def test_completion(line: str, word: str, found: list[str]) -> None:
    session = ReplSession()
    session.feed(':event {"a": 1, "r": {"b": 2}}')
    session.feed("let count = 1")
    assert completions(session, line, word) == found
