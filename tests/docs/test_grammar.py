"""The TextMate grammar of editors/vscode colours the words that the language has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from walflow.lang.scan import words

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
GRAMMAR: dict[str, Any] = json.loads((FOLDER / "syntaxes" / "troy.tmLanguage.json").read_text("utf-8"))
RULES: dict[str, Any] = GRAMMAR["repository"]


def scope_of(text: str) -> str:
    """The scope of a text's beginning, by the first rule that matches there, as editors choose it."""
    for include in RULES["all"]["patterns"]:
        rule = RULES[include["include"].removeprefix("#")]
        for one in rule.get("patterns", [rule]) if "match" not in rule and "begin" not in rule else [rule]:
            if re.match(one.get("match") or one["begin"], text):
                return str(one.get("name", "captures"))
    return ""


@pytest.mark.parametrize("word", sorted(words().values()))
def test_each_word_of_the_language_is_coloured(word: str) -> None:
    assert scope_of(word).startswith(("keyword", "constant.language", "variable.language")), word


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("# a", "comment.line.number-sign.troy"),
        ("## a", "comment.line.documentation.troy"),
        ("#!config x = 1", "keyword.control.directive.troy"),
        ('"a"', "string.quoted.double.troy"),
        ('"""\n', "string.quoted.triple.troy"),
        ("`a b`", "variable.other.troy"),
        ("1_000", "constant.numeric.troy"),
        ("true", "constant.language.troy"),
        ("event.a", "variable.language.troy"),
        ("$meta", "variable.language.troy"),
        ("/connector/a", "entity.name.tag.troy"),
    ],
)
def test_a_scope(text: str, scope: str) -> None:
    assert scope_of(text) == scope


def test_what_the_extension_names_is_there() -> None:
    package = json.loads((FOLDER / "package.json").read_text("utf-8"))
    (language,), (grammar,) = package["contributes"]["languages"], package["contributes"]["grammars"]
    assert (FOLDER / language["configuration"]).is_file()
    assert (FOLDER / grammar["path"]).is_file()
    assert grammar["scopeName"] == GRAMMAR["scopeName"]
    assert language["extensions"] == [f".{suffix}" for suffix in GRAMMAR["fileTypes"]]
