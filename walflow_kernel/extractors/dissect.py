"""`dissect|%{date} %{level}: %{text}|`: divides a string into fields, and returns a record of them.

A field ends where the text after it in the pattern first occurs. `%{?a}` is left out. `%{&a}` is stored under the key
that `%{?a}` contained. `%{+a}` is appended to an earlier `a`. `%{a:int}` and `%{a:float}` are numbers. `%{_}` matches
any number of spaces, `%{_(-)}` any number of hyphens. The pattern must match the whole string.
"""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Final, Literal, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_string, shown
from walflow_kernel.std import float as floats, integer

_TYPES: Final = ("string", "int", "float")

Role = Literal["kept", "left out", "by key", "added"]
_ROLES: Final[dict[str, Role]] = {"?": "left out", "&": "by key", "+": "added"}


class _Field(NamedTuple):
    """`until`: the text at which the field ends. If it is None, the field ends at the nearest of `paddings`; if none
    of them comes and `last` is set, at the end of the string. `joint` is put between the parts of a field that is
    appended to."""

    name: str
    role: Role
    kind: str
    until: str | None = None
    paddings: tuple[str, ...] = ()
    last: bool = False
    joint: str = ""


class _Delimiter(NamedTuple):
    text: str


class _Padding(NamedTuple):
    """Any number of these characters, also none."""

    text: str


_Token = _Field | _Delimiter | _Padding


def extractor(argument: str) -> Extract:
    tokens = _tokens(argument)
    _check(tokens)
    return of_string(partial(_read, [_with_end(tokens, at) for at in range(len(tokens))]))


def _read(tokens: Sequence[_Token], text: str) -> object:
    found: dict[str, object] = {}
    hidden: dict[str, str] = {}
    at = 0
    for token in tokens:
        if isinstance(token, _Delimiter):
            if not text.startswith(token.text, at):
                return NO_MATCH
            at += len(token.text)
        elif isinstance(token, _Padding):
            while text.startswith(token.text, at):
                at += len(token.text)
        else:
            end = _end(token, text, at)
            if end is None or not _put(token, text[at:end], found, hidden):
                return NO_MATCH
            at = end
    return found if at == len(text) else NO_MATCH


def _end(field: _Field, text: str, at: int) -> int | None:
    """None: the text after the field does not occur."""
    if field.until is not None:
        end = text.find(field.until, at)
        return None if end < 0 else _trimmed(text, at, end, field.paddings)
    ends = [end for end in (text.find(padding, at) for padding in field.paddings) if end >= 0]
    return min(ends, default=len(text) if field.last else None)


def _trimmed(text: str, at: int, end: int, paddings: Sequence[str]) -> int:
    for padding in reversed(paddings):
        while text.endswith(padding, at, end):
            end -= len(padding)
    return end


def _put(field: _Field, text: str, found: dict[str, object], hidden: dict[str, str]) -> bool:
    """Stores the text of a field. False: the text is not of the type of the field."""
    if field.role == "left out":
        hidden[field.name] = text
        return True
    name = field.name
    if field.role == "by key":
        name = hidden[name] if name in hidden else str(found[name])
    if field.role == "added" and name in found:
        found[name] = f"{found[name]}{field.joint}{text}"
        return True
    try:
        found[name] = _typed(field.kind, text)
    except CannotApply:
        return False
    return True


def _typed(kind: str, text: str) -> object:
    if kind == "int":
        return integer.parse(text)
    return floats.parse(text) if kind == "float" else text


def _tokens(pattern: str) -> list[_Token]:
    tokens: list[_Token] = []
    rest = pattern
    while rest:
        text, begins, rest = rest.partition("%{")
        if text:
            tokens.append(_Delimiter(text))
        if begins:
            inner, rest = _inner(rest)
            tokens.append(_padding_or_field(inner))
    return tokens


def _inner(rest: str) -> tuple[str, str]:
    """The text before the closing brace, and the text after it. In `%{_(})}` the padding is a brace."""
    closing = ")}" if rest.startswith("_(") else "}"
    inner, closed, behind = rest.partition(closing)
    if not closed:
        raise BadExtractor(f"`%{{{shown(rest)}` is not closed by `{closing}`")
    return inner + closing[:-1], behind


def _padding_or_field(inner: str) -> _Token:
    if inner == "_":
        return _Padding(" ")
    if inner.startswith("_("):
        padding = inner[2:-1]
        if not padding:
            raise BadExtractor("`%{_()}` has nothing between its parentheses")
        return _Padding(padding)
    name, *kinds = [part.strip() for part in inner.split(":")]
    role = _ROLES.get(name[:1], "kept")
    name = name if role == "kept" else name[1:].strip()
    if not name and role != "kept":
        raise BadExtractor(f"`%{{{inner}}}` has no name")
    if len(kinds) > 1 or (kinds and kinds[0] not in _TYPES):
        raise BadExtractor(f"`%{{{shown(inner)}}}`: a field is `int`, `float` or `string`")
    if kinds and role == "added":
        raise BadExtractor(f"`%{{{shown(inner)}}}` is added to a string, so it has no type")
    return _Field(name, role if name else "left out", kinds[0] if kinds else "string")


def _check(tokens: Sequence[_Token]) -> None:
    known: dict[str, _Field] = {}
    for token, following in zip_longest(tokens, tokens[1:]):
        if (
            isinstance(token, _Padding)
            and isinstance(following, _Delimiter)
            and following.text.startswith(token.text)
        ):
            raise BadExtractor(
                f"`%{{_}}` takes each `{shown(token.text)}`, so none is left for the text that follows it"
            )
        if not isinstance(token, _Field):
            continue
        if isinstance(following, _Field):
            raise BadExtractor(f"nothing separates `{shown(token.name)}` from `{shown(following.name)}`")
        if token.role == "by key" and token.name not in known:
            raise BadExtractor(f"`%{{&{shown(token.name)}}}` needs a `%{{?{shown(token.name)}}}` before it")
        if token.role == "added" and token.name in known and known[token.name].kind != "string":
            raise BadExtractor(f"`%{{+{shown(token.name)}}}` is added to a string, and `{token.name}` is a number")
        known.setdefault(token.name, token)


def _with_end(tokens: Sequence[_Token], at: int) -> _Token:
    field = tokens[at]
    if not isinstance(field, _Field):
        return field
    paddings: list[str] = []
    until, last = None, True
    for token in tokens[at + 1 :]:
        if isinstance(token, _Padding):
            paddings.append(token.text)
            continue
        until, last = token.text if isinstance(token, _Delimiter) else None, False
        break
    return field._replace(until=until, paddings=tuple(paddings), last=last, joint=_joint(tokens, field.name))


def _joint(tokens: Sequence[_Token], name: str) -> str:
    """The text after the first part of a field separates all its parts."""
    for token, following in zip_longest(tokens, tokens[1:]):
        if isinstance(token, _Field) and token.name == name:
            return following.text if isinstance(following, _Delimiter | _Padding) else ""
    return ""
