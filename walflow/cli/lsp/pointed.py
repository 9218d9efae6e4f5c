"""What stands at a place of a flow file: a type of connector, a key, a function, a name that is defined elsewhere."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from lark import Token

from walflow.cli.lsp.edited import EditedText, is_name, text_of
from walflow.diagnostics import Span

Role = Literal["type", "key", "value", "setting", "module", "name", "node", "definition"]

_OPENING: Final = {"{", "[", "(", "%{", "%[", "%(", "#{"}
_CLOSING: Final = {"}", "]", ")"}
_TEXT: Final = {"STRING_TEXT", "HEREDOC_TEXT", "EXTRACTOR"}
_STATEMENTS: Final = {"SEMICOLON", "END", "SELECT", "CONNECT", "CREATE", "DEPLOY"}
_PARTS: Final = {"CONNECTOR", "PIPELINE", "OPERATOR", "SCRIPT", "WINDOW", "FLOW", "STREAM"}
_STREAMS: Final = ("operator", "script", "pipeline", "stream")


class Within(NamedTuple):
    """The `with` of a definition: of a connector or an operator of type `of`.
    `path`: the keys around, from the outside."""

    kind: str
    of: str
    path: tuple[str, ...]


class Pointed(NamedTuple):
    """`kinds`: what a name may be, as `connector`. `path`: `a::b`, or a key alone."""

    role: Role
    kinds: tuple[str, ...]
    path: tuple[str, ...]
    span: Span
    within: Within | None = None


def pointed_at(text: EditedText, offset: int) -> Pointed | None:
    at = _token_at(text.tokens, offset)
    if at is None:
        return None
    tokens = text.tokens
    token = tokens[at]
    if token.type in {"STRING_START", "STRING_TEXT", "STRING_END"}:
        return _in_string(text, at)
    if not is_name(token):
        return None
    begin, end = _path_around(tokens, at)
    path = tuple(text_of(one) for one in tokens[begin : at + 1 : 2])  # what is behind the cursor does not count
    span = Span(text.source, tokens[begin].start_pos or 0, token.end_pos or 0)
    return _named(text, begin, end, path, span)


def _named(text: EditedText, begin: int, end: int, path: tuple[str, ...], span: Span) -> Pointed | None:
    tokens = text.tokens
    before = [one.type for one in tokens[max(0, begin - 6) : begin]]
    last = before[-1] if before else ""
    words = [one.value for one in tokens[max(0, begin - 6) : begin]]
    if "USE" in [one.type for one in _statement(tokens, begin)]:
        return Pointed("module", (), _used_path(tokens, begin) + path, span)
    if last == "FROM" and before[-4:-3] in (["DEFINE"], ["CREATE"]):
        role: Role = "type" if before[-4] == "DEFINE" and words[-3] in {"connector", "operator"} else "name"
        return Pointed(role, (words[-3],), path, span)
    if last == "FROM" and before[-4:-2] == ["DEPLOY", "FLOW"]:
        return Pointed("name", ("flow",), path, span)
    if before[-2:-1] == ["DEFINE"] and last in _PARTS:
        return Pointed("definition", (words[-1],), path, span)
    if before[-2:-1] in (["CREATE"], ["DEPLOY"]) and last in _PARTS:
        return Pointed("node" if words[-1] in {"connector", "pipeline"} else "name", (words[-1],), path, span)
    if last == "SLASH" and before[-3:-2] == ["SLASH"] and before[-2] in _PARTS:
        return Pointed("node", (words[-2],), path, span)
    if last in {"FN", "CONST"}:
        return Pointed("definition", (words[-1],), path, span)
    in_select = any(one.type == "SELECT" for one in _statement(tokens, begin))
    if in_select and last in {"FROM", "INTO"}:
        return Pointed("name", _STREAMS, path, span)
    if in_select and last in {"LSQB", "COMMA"} and _opened_behind_from(tokens, begin):
        return Pointed("name", ("window",), path, span)
    if tokens[end].type == "EQUAL" and (around := within(tokens[:begin])) and not around.path:
        return Pointed("setting", (), path, span, around)
    if last == "DOT":
        return None  # a member of an event
    return Pointed("name", ("fn", "const"), path, span)


def _in_string(text: EditedText, at: int) -> Pointed | None:
    tokens = text.tokens
    begin = at
    while tokens[begin].type != "STRING_START":
        begin -= 1
    end = begin
    while end + 1 < len(tokens) and tokens[end].type != "STRING_END":
        end += 1
    around = within(tokens[:begin])
    if around is None:
        return None
    word = "".join(str(one) for one in tokens[begin + 1 : end])
    span = Span(text.source, tokens[begin].start_pos or 0, tokens[end].end_pos or 0)
    if end + 1 < len(tokens) and tokens[end + 1].type == "COLON":
        return Pointed("key", (), (word,), span, around)
    return Pointed("value", (), (word,), span, around._replace(path=(*around.path, *key_before(tokens, begin))))


def within(tokens: Sequence[Token]) -> Within | None:
    """What the place after these tokens lies in."""
    keys: list[str] = []
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        token = tokens[at]
        if token.type in _TEXT:
            continue
        if token.value in _CLOSING:
            depth += 1
        elif token.value in _OPENING and depth:
            depth -= 1
        elif token.value in _OPENING:
            keys += key_before(tokens, at) or ("[]",)
        elif token.type == "WITH" and not depth:
            return _header(tokens, at, tuple(reversed(keys)))
        elif token.type in _STATEMENTS and not depth:
            return None
    return None


def key_before(tokens: Sequence[Token], at: int) -> tuple[str, ...]:
    """The key whose value begins at a token."""
    if at >= 2 and tokens[at - 1].type == "EQUAL" and is_name(tokens[at - 2]):
        return (text_of(tokens[at - 2]),)
    if at >= 4 and tokens[at - 1].type == "COLON" and tokens[at - 2].type == "STRING_END":
        return (str(tokens[at - 3]),)
    return ()


def _header(tokens: Sequence[Token], at: int, path: tuple[str, ...]) -> Within | None:
    begin = at
    while begin >= 0 and tokens[begin].type not in {"DEFINE", "SEMICOLON", "CREATE"}:
        begin -= 1
    head = tokens[begin : begin + 4]
    if begin < 0 or head[0].type != "DEFINE" or len(head) < 4 or head[3].type != "FROM":
        return None
    named = list(tokens[begin + 4 : at])
    quoted = named[1:2] if named and named[0].type == "STRING_START" else []
    of = str(quoted[0]) if quoted else "".join(_leading_path(named))
    return Within(head[1].value, of, path)


def _leading_path(tokens: Sequence[Token]) -> list[str]:
    words: list[str] = []
    for at, token in enumerate(tokens):
        if (token.type == "COLONCOLON") != bool(at % 2):
            break
        words.append(str(token))
    return words


def _token_at(tokens: Sequence[Token], offset: int) -> int | None:
    """The token under a cursor, or that which ends at it."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if (tokens[middle].start_pos or 0) <= offset:
            low = middle + 1
        else:
            high = middle
    for at in (low - 1, low - 2):  # between two tokens the name counts
        if at >= 0 and offset <= (tokens[at].end_pos or 0) and (at == low - 2 or is_name(tokens[at]) or low < 2):
            return at
    return low - 1 if low and offset <= (tokens[low - 1].end_pos or 0) else None


def _path_around(tokens: Sequence[Token], at: int) -> tuple[int, int]:
    """The first token of `a::b::c`, and the one behind its last."""
    begin = end = at
    while begin >= 2 and tokens[begin - 1].type == "COLONCOLON" and is_name(tokens[begin - 2]):
        begin -= 2
    while end + 2 < len(tokens) and tokens[end + 1].type == "COLONCOLON" and is_name(tokens[end + 2]):
        end += 2
    return begin, min(end + 1, len(tokens) - 1)


def _statement(tokens: Sequence[Token], at: int) -> Sequence[Token]:
    """Of the statement that a token is in, what stands before it."""
    begin = at
    while begin and tokens[begin - 1].type not in {"SEMICOLON", "FLOW", "PIPELINE", "END"}:
        begin -= 1
    return tokens[begin:at]


def _used_path(tokens: Sequence[Token], at: int) -> tuple[str, ...]:
    """`std` of `use std::{string, array}`, for each of the names in the braces."""
    for opened in range(at - 1, -1, -1):
        if tokens[opened].type in {"USE", "SEMICOLON"}:
            return ()
        if tokens[opened].value == "{" and opened >= 2:
            begin, _ = _path_around(tokens, opened - 2)
            return tuple(text_of(one) for one in tokens[begin:opened:2])
    return ()


def _opened_behind_from(tokens: Sequence[Token], at: int) -> bool:
    """In `from NAME[a, b]`."""
    while at and tokens[at - 1].type in {"COMMA", "COLONCOLON", "IDENT"}:
        at -= 1
    if not at or tokens[at - 1].type != "LSQB":
        return False
    before = [one.type for one in tokens[max(0, at - 5) : at - 1]]
    return "FROM" in before[-2:] or "FROM" in before[-4:-3]
