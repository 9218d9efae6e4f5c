"""What was opened and never closed: strings, brackets, and what `end` closes.
The error stands where it was opened."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from lark import Token

from walflow.diagnostics import Diagnostic, Source, Span, error
from walflow.lang.blocks import BODIES, is_here, open_block, shown
from walflow.lang.scan import UNCLOSED

UNFINISHED: Final = "unfinished"
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")", "%{": "}", "%[": "]", "%(": ")", "#{": "}"}
_PARTS: Final = {"EQUAL", "INTO", "WHERE", "HAVING", "TO"}  # no value has them
_STATEMENTS: Final = {"DEFINE", "CREATE", "CONNECT", "DEPLOY", "USE", "SELECT", "END", "SEMICOLON", "$END"}
_STANDS_ALONE: Final = {*BODIES, "SCRIPT", "WITH", "WINDOW", "FN"}  # a `;` follows its `end`


class Unclosed(NamedTuple):
    """`lost`: the first token of a statement whose meaning is lost by it. `here`: the place of the missing `end` is
    known, so reading continues behind it."""

    diagnostic: Diagnostic
    lost: int | None = None
    here: bool = False


def unclosed(source: Source, tokens: Sequence[Token], at: int, *, may_end: bool) -> Unclosed | None:
    """If the token at `at` is an error because something before it is open. `may_end`: an `end` could stand there. If
    only the file has ended too early, the name of the error is UNFINISHED."""
    of_text = _string(source, tokens, at) or _bracket(source, tokens, at)
    found = Unclosed(of_text) if of_text else _block(source, tokens, at) if may_end else None
    if found and tokens[at].type == "$END":
        return found._replace(diagnostic=found.diagnostic._replace(name=UNFINISHED))
    return found


def _string(source: Source, tokens: Sequence[Token], at: int) -> Diagnostic | None:
    token = tokens[at]
    if token.type == UNCLOSED:
        if token.startswith('"""'):
            return error('this `"""` is never closed', Span(source, token.start_pos or 0, (token.start_pos or 0) + 3))
        line = source.position(token.start_pos or 0).line
        first = next((one for one in tokens[:at] if one.type == "STRING_START" and _line(source, one) == line), None)
        if first is None or not _glued(tokens, at, source, line):
            return error("this string has no closing quote", _span(source, token), 'its `"` is missing')
        return error("a string in this line has no closing quote", _span(source, first), 'its `"` is missing')
    before = tokens[at - 1] if at else None
    if before is not None and before.type == "STRING_END" and token.type in {"STRING_START", "IDENT", "UNCLOSED"}:
        if source.text.startswith('"""', (before.start_pos or 0) - 1):
            place = Span(source, (before.start_pos or 0) - 1, (before.start_pos or 0) + 2)
            return error('text does not follow `"""` in its line', place, "the text begins in the next line")
        line = _line(source, token)
        rest = [one for one in tokens[at:] if one.type == UNCLOSED and _line(source, one) == line]
        if rest and before.end_pos == token.start_pos:
            opened = next(one for one in reversed(tokens[:at]) if one.type == "STRING_START")
            return error("this string has no closing quote", _span(source, opened), 'its `"` is missing')
    return None


def _glued(tokens: Sequence[Token], at: int, source: Source, line: int) -> bool:
    """Whether a word touches the end of a string: that quote was the beginning of the next one."""
    return any(
        one.type == "STRING_END" and one.end_pos == next_one.start_pos and next_one.type == "IDENT"
        for one, next_one in pairwise(tokens[:at])
        if _line(source, one) == line
    )


def _bracket(source: Source, tokens: Sequence[Token], at: int) -> Diagnostic | None:
    kind = tokens[at].type
    if kind not in _STATEMENTS and kind not in _PARTS:
        return None
    opened: list[Token] = []
    for token in tokens[:at]:
        if str(token) in _CLOSERS and token.type not in {"STRING_TEXT", "HEREDOC_TEXT"}:
            opened.append(token)
        elif str(token) in _CLOSERS.values() and opened and token.type not in {"STRING_TEXT", "HEREDOC_TEXT"}:
            opened.pop()
    if not opened or (kind in _PARTS and str(opened[-1]) == "{"):  # `{"key" = 1}` has a message of its own
        return None
    last = opened[-1]
    where = (
        "the end of the file" if tokens[at].type == "$END" else f"`{tokens[at]}` in line {_line(source, tokens[at])}"
    )
    return error(
        f"this `{last}` is never closed",
        _span(source, last),
        f"its `{_CLOSERS[str(last)]}` is missing before {where}",
    )


def _block(source: Source, tokens: Sequence[Token], at: int) -> Unclosed | None:
    found = open_block(source, tokens, at)
    if found is None:
        return None
    what, span = shown(source, tokens, found.opener)
    kind, before = tokens[found.opener].type, tokens[found.before]
    here = found.before == at and is_here(tokens, at)
    line = _line(source, before)
    where = f"`{before}` in line {line}" if here or before.type == "COMMA" else f"line {line}"
    where = "the end of the file" if before.type == "$END" else where
    with_semicolon = not here and kind in _STANDS_ALONE
    hint = f"write `end;` before {where}" if with_semicolon else f"its `end` is missing before {where}"
    return Unclosed(error(f"{what} has no `end`", span, hint), found.lost, here)


def _span(source: Source, token: Token) -> Span:
    begin = token.start_pos or 0
    return Span(source, begin, max(begin + len(token), begin))


def _line(source: Source, token: Token) -> int:
    return source.position(token.start_pos or 0).line
