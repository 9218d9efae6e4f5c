"""What `end` closes. Where an `end` is missing, the parser finds out much later: it takes the next one in its place.
So the layout of the file decides which construct is open, as a reader would.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from lark import Token

from walflow.diagnostics import Source, Span
from walflow.lang.foreign import is_semicolon_between_settings

BODIES: Final = {"FLOW", "PIPELINE"}
_EXPRESSIONS: Final = {"MATCH", "PATCH", "FOR", "MERGE"}
_NAMED: Final = {"DEFINE", "CREATE", "DEPLOY", "CONNECT", "TO", "SLASH"}  # in `define flow x` no body begins
_BEGINS: Final = {"DEFINE", "CREATE", "DEPLOY", "SELECT", "LET", "CONST", "FN", "EMIT"}
_BEGINS_EFFECT: Final = {"LET", "EMIT", "DROP", "EVENT", "STATE", "DOLLAR", "MATCH", "FOR"}
_GO_ON: Final = {"SEMICOLON", "RBRACE", "RPAR", "RSQB", "FROM", "INTO", "WHERE", "HAVING"}
_MOST_TRIED: Final = 64


class OpenBlock(NamedTuple):
    """Places of tokens. `opener`: what opens it. `before`: its `end` is missing before this one. `lost`: the
    beginning of the statement that cannot be understood because of it;
    None if what was read so far has its meaning all the same."""

    opener: int
    before: int
    lost: int | None


def opens(tokens: Sequence[Token], at: int, opened: Sequence[str]) -> bool:
    """Whether an `end` belongs to the token at `at`. `opened`: the types of those that are open there."""
    kind, before = tokens[at].type, tokens[at - 1].type
    top = opened[-1] if opened else ""
    if at and tokens[at - 1] == "::":  # a name, though it is a word of the language
        return False
    if kind == "SCRIPT":  # one that has a port, `script from`, and that of a window have no `end` of their own
        return before not in _NAMED and top not in {"WITH", "WINDOW"} and tokens[at + 1].type != "FROM"
    if kind == "WITH":  # a function and a window have one `end`
        return top not in {"FN", "WINDOW"}
    if kind == "WINDOW":
        return before == "DEFINE" or (before in {"SLIDING", "TUMBLING"} and tokens[at - 2].type == "DEFINE")
    if kind == "MERGE":
        return top != "PATCH" or before not in {"OF", "SEMICOLON"}
    if kind == "FN":
        return before != "INTRINSIC"
    return kind in _EXPRESSIONS or (kind in BODIES and before not in _NAMED)


def open_block(source: Source, tokens: Sequence[Token], at: int) -> OpenBlock | None:
    """The construct that has no `end`, if that is why the token at `at` is an error."""
    layout = _Layout(source, tokens, at)
    opened, wrong, _ = layout.read(None)
    if not opened:
        return None
    kind = tokens[opened[-1]].type
    if is_here(tokens, at) and (_ends(tokens, at, kind) or (kind in _EXPRESSIONS and layout.is_outside(opened[-1]))):
        return OpenBlock(opened[-1], at, None)
    if not _ends(tokens, at, kind):
        return None
    if tokens[at].type == "COLON":
        comma = next((place for place in range(at, opened[-1], -1) if tokens[place].type == "COMMA"), at)
        return OpenBlock(opened[-1], comma, _lost(tokens, opened))
    found, least = OpenBlock(opened[-1], at, _lost(tokens, opened)), len(wrong)
    for place in wrong[:_MOST_TRIED]:
        _, still_wrong, closed = layout.read(place)
        if len(still_wrong) < least:
            found, least = found._replace(opener=closed, before=place), len(still_wrong)
    return found


def is_here(tokens: Sequence[Token], at: int) -> bool:
    """Whether the missing `end` stands before the token at `at`, beyond doubt."""
    return tokens[at].type in _GO_ON or tokens[at].type in _BEGINS_EFFECT


def _separates(token: Token) -> bool:
    return token.type in {"SEMICOLON", "OF"} or token == "=>"


def _lost(tokens: Sequence[Token], opened: Sequence[int]) -> int | None:
    within = list(takewhile(lambda place: tokens[place].type not in BODIES, reversed(opened)))
    if not within or tokens[within[-1]].type == "WITH":
        return None
    return _beginning(tokens, within[-1], 0)


def innermost(tokens: Sequence[Token], at: int) -> str:
    """The type of the token whose `end` comes next. Empty if there is none."""
    opened: list[str] = []
    for here in range(at):
        if tokens[here].type == "END" and opened:
            opened.pop()
        elif opens(tokens, here, opened):
            opened.append(tokens[here].type)
    return opened[-1] if opened else ""


def _beginning(tokens: Sequence[Token], place: int, first: int) -> int:
    """Where the statement begins that the token at `place` is in. It does not begin before the token `first`."""
    while place > first and tokens[place].type not in _BEGINS and not _separates(tokens[place - 1]):
        place -= 1
    return place


def _ends(tokens: Sequence[Token], at: int, kind: str) -> bool:
    """Whether what `kind` opened has to end before the token at `at`."""
    token, follower = tokens[at], tokens[min(at + 1, len(tokens) - 1)].type
    match token.type:
        case "$END" | "DEPLOY":
            return True
        case "DEFINE":
            return kind not in BODIES or follower == "FLOW" or (kind == "PIPELINE" and follower == "CONNECTOR")
        case "CONNECT":
            return kind != "FLOW"
        case "CREATE" | "SELECT":
            return kind not in BODIES
        case "USE":
            return kind not in BODIES | {"SCRIPT"}
        case "SEMICOLON" if kind in {"WITH", "WINDOW"}:
            return not is_semicolon_between_settings(tokens, at)
        case _ if kind == "PATCH" and tokens[at - 1].type == "SEMICOLON":
            return token.type in _BEGINS_EFFECT
        case "COLON":  # of the next field of a record
            return kind in _EXPRESSIONS and tokens[at - 1].type == "STRING_END"
        case _:
            return kind in _EXPRESSIONS and token.type in _GO_ON


class _Layout:
    """The first `at` tokens, and where each stands in its line."""

    def __init__(self, source: Source, tokens: Sequence[Token], at: int) -> None:
        self._source = source
        self._tokens = tokens
        self._at = at

    def read(self, inserted: int | None) -> tuple[Sequence[int], Sequence[int], int]:
        """The places of what is open; of each `end` that stands at the margin of something other than it closes; and
        of what an `end` before the token `inserted` would close."""
        opened: list[int] = []
        kinds: list[str] = []
        wrong: list[int] = []
        closed = -1
        for here in range(self._at):
            if here == inserted:
                closed = opened.pop()
                kinds.pop()
            if self._tokens[here].type == "END":
                if opened and self._is_wrong(opened, here):
                    wrong.append(here)
                del opened[-1:], kinds[-1:]
            elif opens(self._tokens, here, kinds):
                opened.append(here)
                kinds.append(self._tokens[here].type)
        return opened, wrong, closed

    def is_outside(self, opener: int) -> bool:
        """Whether the next token begins a line, and is not indented as what belongs to the opener."""
        line = self._line(opener)
        within = next((place for place in range(opener, self._at) if self._line(place) != line), self._at)
        column = self._column(self._at)
        return column == self._margin(self._at) and column <= self._margin(opener) and column < self._margin(within)

    def _is_wrong(self, opened: Sequence[int], end: int) -> bool:
        opener, outer = opened[-1], opened[-2] if len(opened) > 1 else -1
        column = self._column(end)
        if self._margin(end) != column or self._line(end) == self._line(opener):
            return False
        return (
            column not in {self._margin(opener), self._column(opener)}
            and self._margin(_beginning(self._tokens, opener, outer + 1)) != column
        )

    def _column(self, place: int) -> int:
        return self._begin(place) - self._line(place)

    def _margin(self, place: int) -> int:
        line = self._line(place)
        rest = self._source.text[line : self._begin(place) + 1]
        return len(rest) - len(rest.lstrip())

    def _line(self, place: int) -> int:
        """The offset at which the line begins."""
        return self._source.text.rfind("\n", 0, self._begin(place)) + 1

    def _begin(self, place: int) -> int:
        return self._tokens[place].start_pos or 0


def shown(source: Source, tokens: Sequence[Token], opener: int) -> tuple[str, Span]:
    """What is open, in the words of a message, and where it begins."""
    token = tokens[opener]
    begin = opener
    if token.type in BODIES | {"SCRIPT"}:
        begin = next((here for here in range(opener, -1, -1) if tokens[here].type == "DEFINE"), opener)
    elif token.type == "WINDOW":
        begin -= 1 if tokens[opener - 1].type == "DEFINE" else 2
    name = begin if token.type == "FN" else opener if token.type == "WINDOW" else begin + 1
    if (begin == opener and token.type != "FN") or tokens[name + 1].type != "IDENT":
        return f"this `{token}`", Span(source, token.start_pos or 0, token.end_pos or 0)
    what = "function" if token.type == "FN" else str(token)
    span = Span(source, tokens[begin].start_pos or 0, tokens[name + 1].end_pos or 0)
    return f"the {what} `{tokens[name + 1].strip('`')}`", span
