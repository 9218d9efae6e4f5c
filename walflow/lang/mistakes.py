"""Mistakes that a reader of other languages makes in scripts, found in the tokens around a syntax error:
the remedy of each."""

from collections.abc import Sequence, Set as AbstractSet
from typing import Final

from lark import Token

_COMPARES: Final = {"EQ", "NE", "LT", "LE", "GT", "GE", "TILDE_EQ", "PRESENT", "ABSENT"}
_ROOTS: Final = {"IDENT", "EVENT", "STATE", "DOLLAR"}
_STATEMENT_BEGINS: Final = {"=>", ";", "script", "with"}
_CONDITION_BEGINS: Final = {"when", "where", "having", "and", "or", "xor", "not", "!", "select"}
_OF_RECORDS: Final = "the pattern of a record begins with `%{`; `{` is a record with these very values"


def remedy(tokens: Sequence[Token], at: int, expected: AbstractSet[str]) -> str | None:
    """`at`: the token that is not one of the `expected`."""
    token, before = tokens[at], tokens[at - 1]
    if expected == {"EXTRACTOR"}:
        return f"a pattern stands between two `|`: `{before}|…|`, or `{before}||` without a pattern"
    if token.type == "EQUAL":
        return _of_assignment(tokens, at)
    if before.type == "EQUAL" and expected == {"IDENT"}:
        return f"`==` compares: `{tokens[at - 2]} == {token}`"
    if expected == {"TILDE_EQ"} and tokens[at - 2].type == "EQUAL":
        return f"`==` compares: `{tokens[at - 3]} == {before}`"
    if before.type == "TILDE_EQ" and token.type == "LBRACE":
        return _OF_RECORDS
    if (token.type in _COMPARES or "COLON" in expected) and _is_record_of_case(tokens, at):
        return _OF_RECORDS
    return None


def _of_assignment(tokens: Sequence[Token], at: int) -> str | None:
    begin = _path_begin(tokens, at)
    if begin is None:
        return None
    before = str(tokens[begin - 1]) if begin else ";"  # a script file begins with a statement
    if before in _STATEMENT_BEGINS:
        path = "".join(tokens[begin:at])
        return f"an assignment begins with `let`: `let {path} = …`"
    return "`==` compares" if before in _CONDITION_BEGINS else None


def _path_begin(tokens: Sequence[Token], end: int) -> int | None:
    """Where the path begins that ends before `end`: `event.a`, `$x`, `x`.
    None if there is no path without brackets."""
    begin = end
    while begin > 0 and tokens[begin - 1].type in _ROOTS | {"DOT"}:
        begin -= 1
        if tokens[begin].type != "DOT" and (not begin or tokens[begin - 1].type not in {"DOT", "DOLLAR"}):
            return begin
    return None


def _is_record_of_case(tokens: Sequence[Token], at: int) -> bool:
    """Whether the innermost `{` that is open at `at` is a pattern of a `case`."""
    closed = 0
    for here in range(at - 1, 0, -1):
        kind = tokens[here].type
        closed += (kind == "RBRACE") - (tokens[here] in {"{", "%{"})
        if closed < 0:
            return kind == "LBRACE" and tokens[here - 1].type == "CASE"
        if kind in {"CASE", "SEMICOLON"}:
            return False
    return False
