"""Where reading continues after a statement with a syntax error."""

from collections.abc import Sequence

from lark import Token

from walflow.lang.blocks import BODIES, opens
from walflow.lang.scan import UNCLOSED

_STARTERS = {"DEFINE", "CREATE", "CONNECT", "DEPLOY", "USE", "SELECT"}
_OF_FLOWS = {"CREATE", "CONNECT"}
_WITH_AN_END = {"DEFINE", "CREATE", "DEPLOY"}  # perhaps, if their `with` can be read


def resync(tokens: Sequence[Token], begun: int, at: int, within_body: bool, *, may_end: bool) -> int:
    """The first token to read again: the beginning of the next statement, or a `;` or an `end` after the statement.
    The statement began at `begun`, and its error is at `at`."""
    opened: list[str] = []
    for here in range(begun, len(tokens) - 1):
        kind = tokens[here].type
        skipping = here >= at and here > begun
        if kind == "USE" and not {"SCRIPT", "FOR"}.isdisjoint(opened):
            continue
        if kind in _STARTERS or kind == UNCLOSED:
            # no statement stands within a `with` or an expression: their `end` is missing, or lost in a string
            while opened and opened[-1] not in BODIES:
                opened.pop()
        if kind in _STARTERS:
            if skipping and not opened and _fits(tokens, here, within_body):
                return here
        elif kind == "SEMICOLON" and skipping and not opened:
            if _fits(tokens, here + 1, within_body):
                return here
        elif kind == "END":
            if opened:
                opened.pop()
            elif skipping and may_end and (tokens[begun].type not in _WITH_AN_END or _closes_body(tokens, here)):
                return here
        elif opens(tokens, here, opened):
            opened.append(kind)
    return len(tokens) - 1


def _fits(tokens: Sequence[Token], at: int, within_body: bool) -> bool:
    """If the header of a flow has an error, the body of the flow comes next. Statements of a body are not allowed at
    the top of a file."""
    return within_body or tokens[at].type not in _OF_FLOWS | {"SELECT"}


def _closes_body(tokens: Sequence[Token], at: int) -> bool:
    """An `end` without a beginning belongs to a lost `with` if statements of the flow follow it."""
    behind = [token.type for token in tokens[at + 1 : at + 3]]
    return not (len(behind) == 2 and behind[0] == "SEMICOLON" and behind[1] in _OF_FLOWS)
