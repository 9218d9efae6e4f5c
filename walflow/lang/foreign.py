"""What people write who know another language: words, signs, quotes. Each with what it is here."""

import itertools
import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Final, NamedTuple

from lark import Token

from walflow.diagnostics import Source


class Remedy(NamedTuple):
    """The message, and what to write."""

    message: str
    hint: str | None


_SIGNS: Final[Sequence[tuple[str, str, str]]] = (
    ("&&", "`&&` is no operator", "write `and`"),
    ("||", "`||` is no operator", "write `or`"),
    ("=~", "`=~` is no operator", "`event.text ~= re|…|` asks whether a pattern matches"),
    ("===", "`===` is no operator", "write `==`"),
    ("!==", "`!==` is no operator", "write `!=`"),
    ("<>", "`<>` is no operator", "write `!=`"),
    ("//", "a comment does not begin with `//`", "write `#`"),
    ("/*", "a comment does not begin with `/*`", "write `#` at the beginning of each line"),
    ("--", "a comment does not begin with `--`", "write `#`"),
)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_COMMENTS: Final = ("//", "/*", "--")
_WORDS: Final[Mapping[str, str]] = {
    "import": "write `use`: `use std::string;`",
    "include": "write `use`: `use std::string;`",
    "let": "`let` belongs into a script: `define script s script … end;`",
    "var": "`let` in a script assigns: `let event.key = 1;`",
    "if": "`match` chooses: `match … of case … => … default => … end`; a select has `where`",
    "like": "`event.text ~= glob|err*|` asks whether a pattern matches",
    "LIKE": "`event.text ~= glob|err*|` asks whether a pattern matches",
    "matches": "`event.text ~= re|…|` asks whether a pattern matches",
    "link": "write `connect /connector/… to /pipeline/…;`",
}
_OPERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "in": ("`in` is no operator", 'write `array::contains(["a", "b"], event.key)` with `use std::array;`'),
    "is": ("`is` is no operator", "write `event.key == null`; `absent event.key` asks whether it is missing"),
    "between": ("`between` is no operator", "write `event.n >= 1 and event.n <= 5`"),
    "as": ("a value has no other name here", 'a record names it: `select {"name": event.key} from …`'),
}
"""Words behind a value."""
_CHOICE: Final = (
    "`match … of case … => … default => … end` chooses; `present event.key` asks whether a member is there"
)
_QUOTES: Final = "'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_OF_STATEMENTS: Final[Mapping[tuple[str, str], str]] = {
    ("DEFINE", "FLOW"): "define flow NAME flow … end;",
    ("DEFINE", "CONNECTOR"): "define connector NAME from TYPE with config = { … } end;",
    ("DEFINE", "PIPELINE"): "define pipeline NAME pipeline … end;",
    ("DEFINE", "OPERATOR"): "define operator NAME from TYPE with … end;",
    ("DEFINE", "SCRIPT"): "define script NAME script … end;",
    ("DEFINE", "WINDOW"): "define window NAME from tumbling with … end;",
    ("DEFINE", "TUMBLING"): "define window NAME from tumbling with … end;",
    ("DEFINE", ""): "define connector NAME from TYPE with … end;",
    ("CREATE", ""): "create connector NAME [from DEFINITION] [with arg = value end];",
    ("CONNECT", ""): "connect /connector/NAME to /pipeline/NAME;",
    ("DEPLOY", ""): "deploy flow NAME [from DEFINITION] [with arg = value end];",
    ("SELECT", ""): "select VALUE from PORT [where CONDITION] into PORT [having CONDITION];",
    ("USE", ""): "use std::string;",
    ("CONST", ""): "const NAME = VALUE;",
}
_STARTERS: Final = {starter for starter, _ in _OF_STATEMENTS}


def begins_with_digit(tokens: Sequence[Token], at: int, expected: AbstractSet[str]) -> str | None:
    """For `define window 10s`, and for `interval = 10s`: a name in backticks, and a number with a unit behind it."""
    token = tokens[at]
    if token.type in {"INT", "FLOAT"} and "IDENT" in expected and "INT" not in expected:
        follower = tokens[at + 1]
        name = f"{token}{follower}" if follower.type == "IDENT" and _touch(token, follower) else str(token)
        return f"a name begins with a letter, or stands in backticks: `` `{name}` ``"
    if (
        token.type != "IDENT"
        or not at
        or tokens[at - 1].type not in {"INT", "FLOAT"}
        or not _touch(tokens[at - 1], token)
    ):
        return None
    if str(token) in _NANOSECONDS:
        length = round(float(tokens[at - 1].replace("_", "")) * _NANOSECONDS[str(token)])
        return (
            f"a time is a number of nanoseconds: {length}, or `nanos::from_seconds(…)` with `use std::time::nanos;`"
        )
    if (scale := str(token).upper().rstrip("IB")) in {"K", "M", "G", "T"}:
        return f'a size is a number of bytes, or a string: `"{tokens[at - 1]}{scale}iB"`'
    return None


def _touch(left: Token, right: Token) -> bool:
    return left.start_pos is not None and left.start_pos + len(left) == right.start_pos


def foreign(source: Source, tokens: Sequence[Token], at: int) -> Remedy | None:
    """What the token at `at` means elsewhere."""
    token = tokens[at]
    begin = token.start_pos or 0
    word = str(token)
    for sign, message, hint in _SIGNS:
        starts = [place for place in range(begin - len(sign) + 1, begin + 1) if source.text.startswith(sign, place)]
        if starts and (sign not in _COMMENTS or _begins_line(source, starts[0])):
            return Remedy(message, hint)
    if word in _QUOTES and word:
        return Remedy(f'strings take `"`, not `{word}`', _quoted(source, begin))
    if source.text.startswith("->", begin) and at and _statement(tokens, at) == "CONNECT":
        return Remedy("`connect` takes `to`, not `->`", "write `connect /connector/… to /pipeline/…;`")
    if word == ">" and source.text.startswith("->", begin - 1):
        return Remedy("`->` is no operator", "a member follows a dot: `event.level`")
    if token.type in {"IDENT", "LET"} and word in _WORDS:
        return Remedy(f"`{word}` does not stand here", _WORDS[word])
    if token.type == "IDENT" and word.isupper() and word.lower() in _LOWER:
        return Remedy(f"words of the language are lower case: `{word.lower()}`", f"write `{word.lower()}`")
    if word.lower() in _OPERATORS and at and _is_value(tokens[at - 1]) and _statement(tokens, at) != "CONNECT":
        return Remedy(*_OPERATORS[word.lower()])
    if word == "?":
        return Remedy("`?` is no operator", _CHOICE)
    if tokens[at - 1].type == "IDENT" and tokens[at - 1] in _WORDS_BEFORE:
        return Remedy(f"`{tokens[at - 1]}` does not stand here", _WORDS_BEFORE[str(tokens[at - 1])])
    if token.type == "DOT" and tokens[at + 1].type == "IDENT" and not _is_value(tokens[at - 1]):
        return Remedy("a path begins with `event`", f"write `event.{tokens[at + 1]}`")
    if token.type == "STRING_START" and tokens[at - 1].type == "IDENT" and _touch(tokens[at - 1], token):
        return Remedy("no letter stands before a string", 'a value in a string: `"at #{event.key}"`')
    if token.type == "LPAR" and at > 2 and tokens[at - 1].type == "IDENT" and tokens[at - 2].type == "DOT":
        return Remedy("a value has no methods", "a function of a module takes it: `string::lowercase(event.key)`")
    if token.type == "COLON" and _in_case(tokens, at):
        return Remedy("a case has `=>`, not `:`", "write `case PATTERN => VALUE`")
    if token.type in {"PLUS", "MINUS"} and tokens[at + 1].type == "EQUAL" and _touch(token, tokens[at + 1]):
        return Remedy(f"`{word}=` is no assignment", f"write `let event.n = event.n {word} 1;`")
    if token.type == "SLASH" and tokens[at - 1].type == "INTO":
        hint = "write `into out`, and in the flow `connect /pipeline/NAME to /connector/NAME;`"
        return Remedy("a select sends to a port, not to a connector", hint)
    if is_semicolon_between_settings(tokens, at):
        return Remedy("settings are separated by `,`, not by `;`", "write `,`")
    if token.type == "STAR" and tokens[at - 1].type == "LPAR":
        return Remedy("`*` is no value", "`aggr::stats::count()` counts the events of a window")
    if token.type == "DOT" and _statement(tokens, at) == "USE":
        return Remedy("the parts of a module's name are joined by `::`, not by `.`", _path(source, tokens, at))
    if token.type == "STAR" and tokens[at - 1].type == "SELECT":
        return Remedy("`*` is no value", "`select event` sends the whole event")
    if token.type == "WINDOW" and tokens[at - 1].type == "CREATE":
        return Remedy("a window is not created", f"a select uses it: `select … from in[{tokens[at + 1]}] into out`")
    if token.type == "LSQB" and at == 0:
        return Remedy("this is no flow file", "it looks like TOML; a flow file begins with `define flow main`")
    if token.type == "WHERE" and _statement(tokens, at) == "SELECT":
        return Remedy("`where` stands behind `from`", "write `select … from in where … into out;`")
    if token.type == "COMMA" and _statement(tokens, at) in {"CONNECT", "CREATE"}:
        name = _statement(tokens, at).lower()
        return Remedy(
            f"one `{name}` is for one {'link' if name == 'connect' else 'node'}", f"write a `{name} …;` for each"
        )
    return None


_WORDS_BEFORE: Final[Mapping[str, str]] = {
    "if": "`match` chooses: `match … of case … => … default => … end`",
    "return": "what a script ends with leaves it: write the value alone, as `event`",
}
"""Read as the name of a constant, so that the error is behind it."""


def is_semicolon_between_settings(tokens: Sequence[Token], at: int) -> bool:
    behind = [token.type for token in tokens[at + 1 : at + 3]]
    return (
        tokens[at].type == "SEMICOLON" and behind == ["IDENT", "EQUAL"] and _statement(tokens, at) in _WITH_SETTINGS
    )


def has_block(tokens: Sequence[Token], at: int) -> bool:
    """Whether the error at `at` is an `if` of another language: nothing that follows its `{` can be read."""
    behind = itertools.takewhile(lambda token: token.type not in {"END", "SEMICOLON"}, tokens[at:])
    return "if" in {tokens[at], tokens[at - 1]} and any(token.type == "LBRACE" for token in behind)


def _is_value(token: Token) -> bool:
    """Whether a value may end with it."""
    return token.type in {"IDENT", "INT", "FLOAT", "STRING_END", "RSQB", "RPAR", "RBRACE", "EVENT", "STATE"}


def _in_case(tokens: Sequence[Token], at: int) -> bool:
    for token in reversed(tokens[:at]):
        if token.type in {"CASE", "DEFAULT"}:
            return True
        if token.type in {"SEMICOLON", "END", "LBRACE"} or token == "=>":
            return False
    return False


_WITH_SETTINGS: Final = {"DEFINE", "CREATE", "DEPLOY"}
_LOWER: Final = {
    *("select", "from", "into", "where", "and", "or", "not", "define", "create", "connect", "deploy", "with", "end"),
    *("having", "group", "by", "flow", "pipeline", "connector", "use"),
}


def example(tokens: Sequence[Token], at: int) -> str | None:
    """The form of the statement that the token stands in, for a hint."""
    for here in range(at, -1, -1):
        kind = tokens[here].type
        if kind == "SEMICOLON" and here < at:
            return None
        if kind == "USE" and here and tokens[here - 1].type not in {"SEMICOLON", "FLOW", "PIPELINE", "SCRIPT"}:
            return None  # the one of `for … into … use +`
        if kind in _STARTERS:
            behind = tokens[here + 1].type if here + 1 < len(tokens) else ""
            form = _OF_STATEMENTS.get((kind, behind)) or _OF_STATEMENTS.get((kind, ""))
            return f"its form is `{form}`"
    return None


def _statement(tokens: Sequence[Token], at: int) -> str:
    """The word that the statement begins with."""
    for here in range(at - 1, -1, -1):
        if tokens[here].type == "SEMICOLON":
            return ""
        if tokens[here].type in _STARTERS:
            return tokens[here].type
    return ""


def _begins_line(source: Source, place: int) -> bool:
    return not source.text[source.text.rfind("\n", 0, place) + 1 : place].strip()


def _quoted(source: Source, begin: int) -> str:
    found = re.compile(rf"[{_QUOTES}]([^{_QUOTES}\"\n]{{0,60}})[{_QUOTES}]").match(source.text, begin)
    return f'write `"{found[1]}"`' if found else 'write `"…"`'


def _path(source: Source, tokens: Sequence[Token], at: int) -> str:
    found = re.compile(r"[\w.]+").match(source.text, tokens[at - 1].start_pos or 0)
    return f"write `use {found[0].replace('.', '::')};`" if found else "write `use std::string;`"
