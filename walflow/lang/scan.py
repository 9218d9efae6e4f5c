"""Text -> tokens, by the patterns of the grammar.

The loop is written by hand because strings have modes: `"…#{…}…"` is code within text within code. It never raises.
Characters that are no token become a token that no rule accepts, and the parser reports it like any other.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from lark import Token
from lark.lexer import PatternStr, TerminalDef

from walflow.diagnostics import Source, Span
from walflow.lang.grammar import grammar

ILLEGAL = "ILLEGAL"  # no token begins with this character
UNCLOSED = "UNCLOSED"  # a string or heredoc without its end; from the quote to the end of its line
TOO_DEEP = "TOO_DEEP"

# The tree is walked recursively.
DEEPEST = 64

_OPENING = {"{", "[", "(", "%{", "%[", "%(", "#{"}
_CLOSING = {"}", "]", ")"}
_MODAL = {"STRING_START", "STRING_TEXT", "STRING_END", "INTERPOLATE", "EXTRACTOR"} | {
    "HEREDOC_START",
    "HEREDOC_TEXT",
    "HEREDOC_END",
}


# all blanks and comments at once: a file may have ten megabytes of comments
_COMMENT = re.compile(r"#[^\n]*+")
_BLANK = re.compile(r"(?:\s++|#(?!!config\b)[^\n]*+)*+")


class _Patterns(NamedTuple):
    code: re.Pattern[str]
    keywords: dict[str, str]
    modal: dict[str, re.Pattern[str]]


@cache
def _patterns() -> _Patterns:
    terminals = grammar().terminals
    keywords = {t.pattern.value: t.name for t in terminals if _is_keyword(t)}
    # the longest literal first: `>>>` before `>>` before `>`
    literals = sorted((t for t in terminals if _is_punctuation(t)), key=lambda t: -len(t.pattern.value))
    others = [t for t in terminals if not isinstance(t.pattern, PatternStr) and t.name not in _MODAL]
    code = "|".join(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in [*others, *literals])
    modal = {t.name: re.compile(t.pattern.to_regexp()) for t in terminals if t.name in _MODAL}
    return _Patterns(re.compile(code), keywords, modal)


def _is_keyword(terminal: TerminalDef) -> bool:
    return isinstance(terminal.pattern, PatternStr) and (terminal.pattern.value.isidentifier())


def _is_punctuation(terminal: TerminalDef) -> bool:
    return isinstance(terminal.pattern, PatternStr) and not _is_keyword(terminal) and terminal.name not in _MODAL


@cache
def words() -> Mapping[str, str]:
    """The words of the language, by the type of their token."""
    return {kind: word for word, kind in _patterns().keywords.items()}


def scan(source: Source) -> list[Token]:
    return list(_Scanner(source).tokens())


def comments(source: Source) -> Iterator[Span]:
    """Each comment, from its `#` to the end of its line. A directive (`#!config`) is none."""
    at = 0
    for token in [*scan(source), Token("$END", "", len(source.text), end_pos=len(source.text))]:
        begin = token.start_pos or 0
        for found in _COMMENT.finditer(source.text, at, begin):
            yield Span(source, *found.span())
        at = token.end_pos or begin


class _Scanner:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.depth = 0
        self.resume: list[tuple[str, int]] = []  # for each open interpolation, the kind of its text and its depth
        self.last: list[str] = ["", ""]  # the two token types before

    def tokens(self) -> Iterator[Token]:
        while (token := self._next()) is not None:
            self.last = [self.last[1], token.type]
            yield token
            if token.type == TOO_DEEP:
                return
            yield from self._text_after(token)

    def _next(self) -> Token | None:
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if self.at >= len(self.text):
            return None
        if self._extractor_follows() and (match := self._modal("EXTRACTOR")):
            return self._cut("EXTRACTOR", match.end())
        if match := self._modal("HEREDOC_START"):
            return self._deeper(self._cut("HEREDOC_START", match.end()))
        if self.text[self.at] == '"':
            return self._cut("STRING_START", self.at + 1)
        match = _patterns().code.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            return self._cut(ILLEGAL, self.at + 1)
        kind = match.lastgroup
        if kind == "IDENT":
            kind = _patterns().keywords.get(match.group(), kind)
        return self._deeper(self._cut(kind, match.end()))

    def _extractor_follows(self) -> bool:
        # `|` is an operator everywhere but behind `~ name` and `~= name`
        before, last = self.last
        return last == "IDENT" and before in {"TILDE", "TILDE_EQ"}

    def _modal(self, name: str) -> re.Match[str] | None:
        return _patterns().modal[name].match(self.text, self.at)

    def _cut(self, kind: str, end: int) -> Token:
        # lines and columns are worked out from these where something is wrong, for few tokens of many
        token = Token(kind, self.text[self.at : end], self.at, end_pos=end)
        self.at = end
        return token

    def _deeper(self, token: Token) -> Token:
        if token.value in _OPENING:
            self.depth += 1
        elif token.value in _CLOSING:
            self.depth -= 1
        return token if self.depth <= DEEPEST else token.update(type=TOO_DEEP)

    def _text_after(self, token: Token) -> Iterator[Token]:
        """The text after a quote, or after an interpolation."""
        if token.type in {"STRING_START", "HEREDOC_START"}:
            yield from self._text(token.type.removesuffix("_START"), token)
        elif token.type == "RBRACE" and self.resume and self.resume[-1][1] > self.depth:
            yield from self._text(self.resume.pop()[0], token)

    def _text(self, kind: str, opened: Token) -> Iterator[Token]:
        if match := self._modal(f"{kind}_TEXT"):
            yield self._cut(f"{kind}_TEXT", match.end())
        if match := self._modal(f"{kind}_END"):
            yield self._cut(f"{kind}_END", match.end())
        elif match := self._modal("INTERPOLATE"):
            token = self._deeper(self._cut("INTERPOLATE", match.end()))
            self.resume.append((kind, self.depth))
            yield token
        else:
            yield self._unclosed(opened)

    def _unclosed(self, opened: Token) -> Token:
        begin = opened.start_pos or 0
        token = Token(UNCLOSED, self.text[begin : self.at], begin, end_pos=self.at)
        self.resume.clear()
        self.depth = 0
        return token
