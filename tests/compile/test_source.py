"""What is generated: no text of a flow file in it but in comments, shown as it runs,
and found again by a traceback."""

import ast
import linecache
import re
import traceback
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.compile import pipelines
from tests.compile.world import call, expression, script, term
from tests.examples import shared
from tests.lang.world import assembled
from walflow.codecs import JSON
from walflow.compile.compiler import compile_region
from walflow.compile.listing import Table
from walflow.compile.reads import Decoded
from walflow.compile.region import Region, Rule
from walflow.diagnostics import Source, Span
from walflow.event import Frames
from walflow.framing import LINES
from walflow_kernel.errors import CannotEvaluate

HOSTILE = [
    "'",
    '"""',
    "\\",
    "\n    import os",
    "\r__import__('os')",
    "{0}",
    "#",
    "\x00",
    "\u2028x",
    "\x0c",
    "\ud800",
    "f0",
    "e",
    "def",
    "__class__",
    "c1",
    "",
    "é",
    "x" * 10_000,
]
_allowed = re.compile(
    r"(?:[a-zA-Z]\d*|e(?:_\d+)+|f\d+|p\d+|q\d+|def|run|for|in|zip|if|else|elif|is|not|and|or|try|except|as|raise|from|None|True|False"
    r"|return|type|dict|str|int|float|bool|bytes|list|nonlocal|pass|[a-z_]+|[A-Z_]+|Lost|Missing|CannotEvaluate|CannotApply"
    r"|RecursionError|MemoryError)"
).fullmatch


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_of_the_users_is_code(text: str) -> None:
    written = '"' + "".join(f"\\u{{{ord(one):x}}}" for one in text[:50]) + '"' if "\ud800" not in text else '"a"'
    of = term(
        f'{{{written}: event[{written}], "t": "#{{event.a}}" + {written}, "p": patch event.r of insert '
        f"{written} => {written} end}}"
    )
    source = Source(f"{text}.troy", f"select {text} from in")
    rule = Rule(of, term(f"event[{written}] == {written}"), None, text, Span(source, 0, 5))
    compiled = compile_region(Region(text, "in", {"in": [rule]}))
    tree = ast.parse(compiled.source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert all(map(_allowed, names)), names
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    ]
    assert texts == []
    assert len(tree.body) == 1
    comments = [line.strip() for line in compiled.source.split("\n") if line.strip().startswith("#")]
    assert all(line.isprintable() for line in comments)
    ast.parse(compiled.listing)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_of_a_script_is_code(text: str) -> None:
    written = '"' + "".join(f"\\u{{{ord(one):x}}}" for one in text[:50]) + '"' if "\ud800" not in text else '"a"'
    name = "".join(one for one in text if one.isprintable() and one not in "`\ud800")[:50] or "x"
    made = script(
        f"""
        let `{name}` = {written};
        let event[{written}] = `{name}`;
        match event of
          case `{name}` = %{{`{name}` == {written}, present `{name}`}} => emit `{name}` => {written}
          case {written} => drop
          default => for event of case (`{name}`, v) => f(`{name}`) end
        end
        """,
        f"fn f(`{name}`) with [`{name}`, {written}] end;",
    )
    tree = ast.parse(made.compiled.source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert all(map(_allowed, names)), names
    strings = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str | bytes)]
    assert strings == []


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_whatever_a_key_is_it_is_read(keys: list[str]) -> None:
    steps = "".join('["' + "".join(f"\\u{{{ord(one):x}}}" for one in key) + '"]' for key in keys)
    value: object = 7
    for key in reversed(keys):
        value = {key: value}
    found = expression(f"event{steps}")
    assert found.evaluate(value) == 7
    lines = JSON.encode(value) + b"\n"
    for project in (True, False):
        decoded = found.compiled.reader.decode(Frames(lines, 1, LINES), JSON, project=project)
        outcome = found.compiled.run(decoded, call())
        assert outcome.rows["out"].values == [7]


def test_the_lines_of_the_file_stand_beside_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assembly = assembled(
        """
define flow main
flow
  define pipeline way
  pipeline
    select event.a from in where event.b > 1 into out;
  end;
  define connector null from null;
  create connector null;
  create pipeline way;
  connect /connector/null to /pipeline/way;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
""".replace("connect /connector/null to /pipeline/way;\n", "")
    )
    [plan] = assembly.pipelines
    [region] = plan.regions
    compiled = compile_region(region)
    assert "# main.troy:6: select event.a from in where event.b > 1 into out;" in compiled.source
    outcome = compiled.run(Decoded([0, 1], [{"a": 1, "b": "x"}, {"b": 2}]), call())
    spans = [compiled.span(refusal.line) for refusal in outcome.refused]
    assert [span and span.text for span in spans] == ["event.b > 1", "event.a"]
    assert [refusal.reason for refusal in outcome.refused] == [
        "`>` cannot be applied to a string and a whole number",
        "`event.a`: a record without `a`",
    ]


def test_a_traceback_shows_the_source() -> None:
    def broken(value: object) -> object:
        raise ZeroDivisionError("of a function that is wrong")

    compiled = expression("string::len(event)").compiled
    name = next(name for name in compiled._run.__globals__ if re.fullmatch(r"f\d+", name))
    kept = compiled._run.__globals__[name]
    compiled._run.__globals__[name] = broken
    try:
        compiled.run(Decoded([0], ["a"]), call())
    except ZeroDivisionError as error:
        shown = "".join(traceback.format_exception(error))
    finally:
        compiled._run.__globals__[name] = kept
    assert f"= {name}(" in shown
    assert any(
        line.startswith("def run(")
        for file in linecache.cache
        if "walflow" in file
        for line in linecache.getlines(file)
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60 + "event.a" + "]" * 60,
        "(1 + " * 60 + "event.a" + ")" * 60,
        "(" * 30 + "event.a" + " or event.b and event.c)" * 30,
        " + ".join(["event.a"] * 3000),
        " or ".join(["event.a == 1"] * 2000),
        "[" + ", ".join(["event.a"] * 5000) + "]",
        "{" + ", ".join(f'"k{number}": event.a' for number in range(2000)) + "}",
        "patch event of " + "; ".join(f'upsert "k{number}" => event.a' for number in range(2000)) + " end",
        "present event" + "[event.a" * 25 + "]" * 25,
        "patch event of default \"a\" => " * 20 + "event.a" + " end" * 20,
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
@pytest.mark.test
def test_what_is_long_or_deep_compiles_and_says_what_the_interpreter_says(text: str) -> None:
    found = expression(text)
    for event in ({"a": 1}, {"a": True, "b": False, "c": True}, {}):
        outcomes = []
        for evaluate in (found.evaluate, found.interpret):
            try:
                outcomes.append(evaluate(event))
            except CannotEvaluate as refused:
                outcomes.append(str(refused))
        assert outcomes[0] == outcomes[1]


def test_streams_that_meet_again_and_again_do_not_swell() -> None:
    levels = 30
    places = {f"s{at}" if at else "in": [Rule(None, None, None, f"s{at + 1}")] * 2 for at in range(levels - 1)}
    compiled = compile_region(
        Region("diamonds", "in", {**places, f"s{levels - 1}": [Rule(None, term("false"), None, "out")]})
    )
    assert len(compiled.source) < 20_000


def test_exits_that_an_event_may_leave_by_twice_are_known() -> None:
    def to(*names: str) -> list[Rule]:
        return [Rule(None, None, None, name) for name in names]

    assert not Region("r", "in", {"in": to("out", "a"), "a": to("b"), "b": to("c")}).repeated
    assert Region("r", "in", {"in": to("out", "out")}).repeated == {"out"}
    assert Region("r", "in", {"in": to("a", "b"), "a": to("c", "d"), "b": to("c"), "c": to("x")}).repeated == {"x"}
    assert not Region("r", "in", {"in": to("a"), "a": to("x"), "unreached": to("x")}).repeated
    chain = {f"s{at}": to(f"s{at + 1}") for at in range(5000)}
    assert not Region("r", "s0", chain).repeated


@pytest.mark.parametrize("seed", shared([20267864, *range(40)]))
def test_no_local_hides_a_global_of_the_same_letter_and_number(seed: int) -> None:
    chance = Random(seed)
    for _ in range(1000):
        pipelines.event(chance)  # as in `python -m tests.compile.test_differential`, where a seed was found
    tree = ast.parse(compile_region(pipelines.region(chance)).source)
    local = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    assert [name for name in local if re.fullmatch(r"[A-Za-z]\d+", name) and name[0] in Table.LETTERS] == []
