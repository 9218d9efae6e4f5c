"""The one layout of a flow file, as `walflow fmt` writes it.

Line breaks stay where they are, as in gofmt: whether a record stands in one line or in ten is the author's.
Everything else is decided here: the indentation, the spaces between tokens, blank lines. Strings, extractors and
comments are kept as they are. The tokens of the result are those of the text: `formatted` looks, and otherwise
changes nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from lark import Token

from walflow.diagnostics import Source
from walflow.lang.scan import ILLEGAL, TOO_DEEP, UNCLOSED, comments, scan

STEP: Final = "  "
_OPENERS: Final = {"{", "[", "(", "%{", "%[", "%("}
_CLOSERS: Final = {"}", "]", ")"}
_SECTIONS: Final = {"ARGS", "WITH", "FLOW", "PIPELINE", "SCRIPT", "STATE"}
_BLOCKS: Final = {"MATCH", "FOR", "PATCH"}
_CASES: Final = {"CASE", "DEFAULT"}
_CLAUSES: Final = {"FROM", "INTO", "WHERE", "GROUP", "HAVING", "WITH", "ARGS", "OF"}
_NAMED: Final = {"DEFINE", "CREATE", "DEPLOY", "CONNECT", "TO", "SLASH", "DOT"}
_TIGHT_BEFORE: Final = {"COMMA", "SEMICOLON", "RPAR", "RSQB"}
_SPACED: Final = {
    *(
        "EQ",
        "NE",
        "LE",
        "GE",
        "LT",
        "GT",
        "TILDE_EQ",
        "AND",
        "OR",
        "XOR",
        "ARROW",
        "WHERE",
        "FROM",
        "INTO",
        "WITH",
        "OF",
        "END",
    ),
}


class Piece(NamedTuple):
    """A token, a whole string, or a comment. `kind` is the token's type, STRING or COMMENT."""

    kind: str
    text: str
    start: int
    end: int


@dataclass
class _Frame:
    """Something that is open. `base`: the indentation of the line that it began in. `section`: a part of a statement
    that the next part ends."""

    closer: str
    base: int
    section: str = ""
    in_case: bool = False


def formatted(source: Source) -> str:
    """A text that cannot be cut into tokens stays as it is."""
    if any(token.type in {ILLEGAL, UNCLOSED, TOO_DEEP} for token in scan(source)):
        return source.text
    pieces = list(_pieces(source))
    text = "\n".join(_laid_out(source.text, pieces)) + "\n" if pieces else ""
    again = Source(source.name, text)
    same = [(p.kind, _words(p)) for p in _pieces(again)] == [(p.kind, _words(p)) for p in pieces]
    return text if same else source.text


def _words(piece: Piece) -> str:
    return piece.text.rstrip() if piece.kind == "COMMENT" else piece.text


def _pieces(source: Source) -> Iterator[Piece]:
    found = [
        *_whole(source.text, scan(source)),
        *(Piece("COMMENT", c.text.rstrip(), c.start, c.end) for c in comments(source)),
    ]
    yield from sorted(found, key=lambda piece: piece.start)


def _whole(text: str, tokens: Sequence[Token]) -> Iterator[Piece]:
    """Strings in one piece, with what is interpolated in them."""
    depth, begin = 0, 0
    for token in tokens:
        start, end = token.start_pos or 0, token.end_pos or 0
        if token.type in {"STRING_START", "HEREDOC_START"}:
            begin, depth = (begin, depth + 1) if depth else (start, 1)
        elif token.type in {"STRING_END", "HEREDOC_END"}:
            depth -= 1
            if not depth:
                yield Piece("STRING", text[begin:end], begin, end)
        elif not depth:
            yield Piece(token.type, str(token), start, end)


def _laid_out(text: str, pieces: Sequence[Piece]) -> list[str]:
    lines: list[str] = []
    layout = _Layout(pieces)
    at = 0
    while at < len(pieces):
        end = at + 1
        while end < len(pieces) and "\n" not in text[pieces[end - 1].end : pieces[end].start]:
            end += 1
        between = text[pieces[at - 1].end : pieces[at].start] if at else ""
        if between.count("\n") > 1:
            lines.append("")
        indent = layout.indent(at)
        line = _spaced(pieces[at:end])
        lines.append(STEP * indent + line)
        layout.take(at, end, indent)
        at = end
    return lines


class _Layout:
    """What is open at the beginning of each line."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._tokens = [Token(piece.kind, piece.text) for piece in pieces]
        self._open: list[_Frame] = []
        self._statement = 0  # the indentation of the statement that has begun
        self._begins = True  # a statement
        self._directive: int | None = None  # how much is open around a `#!config`, which has no semicolon

    def indent(self, at: int) -> int:
        piece = self._pieces[at]
        top = self._open[-1] if self._open else None
        if piece.text in _CLOSERS and piece.kind != "STRING" and top and top.closer == piece.text:
            return top.base
        if piece.kind == "END" and top and top.closer == "end":
            return top.base
        if self._is_section(at):
            return top.base if top and top.section in {"ARGS", "STATE", "WITH"} else self._statement
        if top and top.closer == "end" and not top.section:
            return top.base + (1 if piece.kind in _CASES or not top.in_case else 2)
        if top and top.closer != "end":
            return top.base + 1
        if self._begins or piece.kind == "COMMENT":
            return self._inside()
        return (
            self._statement + (0 if piece.kind in _CLAUSES else 1)
            if top is None or top.section in _BODIES
            else self._inside()
        )

    def _inside(self) -> int:
        return self._open[-1].base + 1 if self._open else 0

    def _is_section(self, at: int) -> bool:
        kind, before = self._pieces[at].kind, self._before(at)
        if kind not in _SECTIONS or before in _NAMED or before == "MERGE":
            return False
        if self._open and self._open[-1].closer != "end":
            return False
        if kind == "ARGS":
            return before in {"IDENT", "STRING", "TUMBLING", "SLIDING"} and self._after(at) in {
                "IDENT",
                *_WORDS_AS_NAMES,
            }
        if kind == "STATE":
            return self._open_section() in {"ARGS", "WITH"} or (before == "IDENT" and self._after(at) != "DOT")
        return True

    def _open_section(self) -> str:
        return self._open[-1].section if self._open else ""

    def _before(self, at: int) -> str:
        return next((p.kind for p in reversed(self._pieces[:at][-8:]) if p.kind != "COMMENT"), "")

    def _after(self, at: int) -> str:
        return next((p.kind for p in self._pieces[at + 1 : at + 8] if p.kind != "COMMENT"), "")

    def take(self, begin: int, end: int, indent: int) -> None:
        """The line from `begin` to `end` has this indentation."""
        for at in range(begin, end):
            piece = self._pieces[at]
            if piece.kind == "COMMENT":
                continue
            if self._begins and piece.kind not in {"SEMICOLON", "END"} and not self._is_section(at):
                self._statement = indent
            self._begins = False
            if piece.kind == "CONFIG_DIRECTIVE":
                self._directive = len(self._open)
            self._step(at, indent)
        if self._directive == len(self._open) and self._pieces[end - 1].kind != "EQUAL":
            self._begins, self._directive = True, None

    def _step(self, at: int, indent: int) -> None:
        piece = self._pieces[at]
        top = self._open[-1] if self._open else None
        if piece.kind == "STRING":
            return
        if piece.text in _OPENERS:
            self._open.append(_Frame({"{": "}", "[": "]", "(": ")"}[piece.text[-1]], indent))
        elif piece.text in _CLOSERS:
            if top and top.closer == piece.text:
                self._open.pop()
        elif piece.kind == "END":
            if top and top.closer == "end":
                self._statement = self._open.pop().base
        elif self._is_section(at):
            self._section(piece.kind, indent)
        elif piece.kind in _BLOCKS or (piece.kind == "MERGE" and self._is_block(at)):
            self._open.append(_Frame("end", indent))
        elif piece.kind in _CASES and top and not top.section:
            top.in_case = True
        elif piece.kind == "OF" and top and top.section == "FN":
            top.section = ""
        elif piece.kind == "SEMICOLON" and (not top or top.closer == "end"):
            self._begins = True
            if top is None or top.section:
                self._statement = self._inside()

    def _section(self, kind: str, indent: int) -> None:
        base = self._statement
        if self._open_section() in {"ARGS", "STATE"} or (
            self._open_section() == "WITH" and kind in {"SCRIPT", "STATE"}
        ):
            base = self._open.pop().base
        self._open.append(_Frame("end", base, kind))
        self._begins = kind in _BODIES

    def _is_block(self, at: int) -> bool:
        """`merge … of … end`, and not the operation `merge` of a `patch`."""
        return self._before(at) not in {"OF", "SEMICOLON"} or self._open_section() != "" or not self._open


_BODIES: Final = {"FLOW", "PIPELINE", "SCRIPT"}
_WORDS_AS_NAMES: Final = {"STATE", "EVENT", "GROUP", "WINDOW", "OF", "BY", "SET"}


def _spaced(pieces: Sequence[Piece]) -> str:
    parts = [pieces[0].text]
    for at, (before, piece) in enumerate(pairwise(pieces), 1):
        written = before.end < piece.start
        if piece.kind == "COMMENT":
            parts.append(STEP)
        elif piece.kind in _TIGHT_BEFORE:
            pass
        elif (
            before.kind in {"COMMA", "SEMICOLON"}
            or piece.kind in _SPACED
            or before.kind in _SPACED
            or piece.kind == "EQUAL"
            or before.kind == "EQUAL"
            or (before.kind == "COLON" and at > 1 and pieces[at - 2].kind == "STRING")
        ):
            parts.append(" ")
        elif (
            (piece.kind == "COLON" and before.kind == "STRING")
            or (before.text in _OPENERS and before.kind != "STRING")
            or (piece.text == "}" and piece.kind != "STRING")
        ):
            pass
        elif written:
            parts.append(" ")
        parts.append(piece.text)
    return re.sub(r"[ \t]+$", "", "".join(parts)) if pieces[-1].kind != "STRING" else "".join(parts)
