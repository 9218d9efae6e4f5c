"""Pygments colours flows as the editors do: the same classes at each character as an engine of TextMate's own rules
finds."""

import json
import logging

import pytest
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Text
from textmate_grammar.elements import ContentElement
from textmate_grammar.parsers.base import LanguageParser

from tests.system.daemon import ROOT
from walflow.cli.lexer import TOKENS, TroyLexer, grammar, token_of

FILES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("flows", "walflow/cli/new/templates", "walflow/modules", "tests/lang/seeds")
    for suffix in ("troy", "tremor", "trickle")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
)
ODD = [
    '"#{event.a} and #{"in #{$b} it"}" # behind\n',
    '"""\nlines # no comment\n#{event.a + 1} \\" end\n""" ;\n',
    '"never closed\nselect event from in into out\n',
    "match event of case %{ a ~= json|{ \\| }| } => 0x1F case r = %{} when re|^a.*$| => 1_000.5e3 end\n",
    "## documented\n### a module\n#!config x = 1\n#{ no comment\n",
    "connect /connector/`a b`/err to /pipeline/x-y/in;\n",
    "event.select.args[$meta.true].end null nullable _ a_b\n",
    "ä \u2028 ü\tstring::len(x)::y\n",
]

logging.getLogger("textmate_grammar").setLevel(logging.CRITICAL)  # it tells each step


def of_the_engine(text: str) -> list[object]:
    """The token of the innermost scope at each character."""
    parser = LanguageParser(dict(grammar()))
    found = parser.parse_string(text)
    tokens: list[object] = [Text] * len(text)
    starts = [0]
    for one in text.split("\n"):
        starts.append(starts[-1] + len(one) + 1)
    if isinstance(found, ContentElement):
        for place, content, scopes in found.flatten():
            at = starts[place[0]] + place[1]
            inner = [scope for scope in scopes if scope != "source.troy"]
            tokens[at : at + len(content)] = [token_of(inner[-1] if inner else "")] * len(content)
    return tokens


def of_the_lexer(text: str) -> list[object]:
    return [token for _, token, value in TroyLexer().get_tokens_unprocessed(text) for _ in value]


def assert_alike(text: str) -> None:
    lexed, expected = of_the_lexer(text), of_the_engine(text)
    assert len(lexed) == len(text)
    for at, (one, other) in enumerate(zip(lexed, expected, strict=True)):
        assert one is other or text[at].isspace(), text[max(0, at - 40) : at + 40]


@pytest.mark.test
@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_same_colours(name: str) -> None:
    assert_alike((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("text", ODD)
def test_what_is_odd_has_the_same_colours(text: str) -> None:
    assert_alike(text)


def test_each_scope_of_the_grammar_has_a_token() -> None:
    scopes = set(_names(json.loads(json.dumps(grammar()["repository"]))))
    assert len(scopes) > 15
    assert all(token_of(scope) is not None for scope in scopes)
    assert all(
        any(f"{scope}.".startswith(f"{start}.") for scope in scopes) for start in TOKENS if start.count(".") > 1
    )


@pytest.mark.parametrize("name", ["troy", "tremor", "trickle"])
def test_pygments_finds_it(name: str) -> None:
    assert isinstance(get_lexer_by_name(name), TroyLexer)
    assert isinstance(get_lexer_for_filename(f"main.{name}"), TroyLexer)


def _names(rule: object) -> list[str]:
    if isinstance(rule, list):
        return [name for one in rule for name in _names(one)]
    if not isinstance(rule, dict):
        return []
    own = [rule["name"]] if isinstance(rule.get("name"), str) else []
    return own + [name for one in rule.values() for name in _names(one)]
