"""The TextMate grammar of the editors, for Pygments: `pygmentize`, MkDocs and Sphinx then colour flows as an editor
does.

A grammar says what begins at the earliest place, and of several there the first one named. A lexer tries its rules in
order at each place. So the rules are the grammar's, and there is no second list of words to keep.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from re import MULTILINE, Match
from typing import Any, ClassVar, Final

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

Token = Any  # Pygments has no name for the type of its tokens
Rule = Mapping[str, Any]
FOUND: Final = "vscode/syntaxes/troy.tmLanguage.json"

# the first that a scope begins with
TOKENS: Final[Mapping[str, Token]] = {
    "comment.line.documentation": Comment.Special,
    "comment": Comment.Single,
    "constant.character.escape": String.Escape,
    "constant.language": Keyword.Constant,
    "constant.numeric": Number,
    "entity.name.function": Name.Function,
    "entity.name.namespace": Name.Namespace,
    "entity.name.tag": Name.Tag,
    "keyword.control.directive": Comment.Preproc,
    "keyword.operator.word": Operator.Word,
    "keyword.operator": Operator,
    "keyword": Keyword,
    "meta": Text,
    "punctuation.section.interpolation": String.Interpol,
    "punctuation": Punctuation,
    "string.regexp": String.Regex,
    "string": String,
    "support.function": Name.Function,
    "variable.language": Name.Builtin.Pseudo,
    "variable": Name.Variable,
}


def token_of(scope: str) -> Token:
    """Of a scope of TextMate. Raises KeyError for one that has no token yet."""
    if not scope:
        return Text
    return (
        next((token for start, token in TOKENS.items() if f"{scope}.".startswith(f"{start}.")), None) or TOKENS[scope]
    )


def grammar() -> Rule:
    installed = files("walflow") / "share" / FOUND
    path = installed if installed.is_file() else Path(__file__).parents[2] / "editors" / FOUND
    found: Rule = json.loads(path.read_text("utf-8"))
    return found


def _states(source: Rule) -> dict[str, list[Any]]:
    """A state for each rule with a beginning and an end, and `root`."""
    rules: Rule = source["repository"]
    states = {
        name: [(rule["end"], _end(rule), "#pop"), *_entries(rule, rules), (r"(?s).", _content(rule))]
        for name, rule in rules.items()
        if "begin" in rule
    }
    return {"root": [*_entries(source, rules), (r"(?s).", Text)], **states}


def _entries(rule: Rule, rules: Rule) -> Iterator[Any]:
    for one in rule.get("patterns", ()):
        name = one["include"].removeprefix("#") if "include" in one else ""
        found: Rule = rules[name] if name else one
        if "begin" in found:
            yield (found["begin"], _begin(found), name)
        elif "match" in found:
            captures = found.get("captures")
            yield (found["match"], _captures(captures) if captures else token_of(found["name"]))
        else:
            yield from _entries(found, rules)


def _content(rule: Rule) -> Token:
    return token_of(rule["contentName"] if "contentName" in rule else rule["name"])


def _begin(rule: Rule) -> Token | Callable[..., Iterator[tuple[int, Token, str]]]:
    captures: Rule = rule.get("beginCaptures", {})
    return _captures(captures) if captures and "0" not in captures else token_of(captures.get("0", rule)["name"])


def _end(rule: Rule) -> Token:
    return token_of(rule.get("endCaptures", {}).get("0", rule)["name"])


def _captures(captures: Rule) -> Callable[..., Iterator[tuple[int, Token, str]]]:
    """As `pygments.lexer.bygroups`, which leaves out what stands between the groups."""
    tokens = {int(number): token_of(one["name"]) for number, one in captures.items()}

    def found(lexer: RegexLexer, match: Match[str], ctx: object = None) -> Iterator[tuple[int, Token, str]]:
        at = match.start()
        for number, token in tokens.items():
            if at < match.start(number):
                yield at, Text, match.string[at : match.start(number)]
            yield match.start(number), token, match[number]
            at = match.end(number)
        if at < match.end():
            yield at, Text, match.string[at : match.end()]

    return found


class TroyLexer(RegexLexer):
    """Flows, pipelines and scripts: .troy, .trickle and .tremor files."""

    name = "troy"
    aliases: ClassVar[Sequence[str]] = ["troy", "trickle", "tremor"]
    filenames: ClassVar[Sequence[str]] = ["*.troy", "*.trickle", "*.tremor"]
    url = "https://www.tremor.rs"
    flags = MULTILINE
    tokens: ClassVar[dict[str, list[Any]]] = _states(grammar())
