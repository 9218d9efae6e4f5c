"""std::re, by RE2: whatever the pattern, matching takes time in proportion to the text."""

import re as stdlib_re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Protocol

import re2  # pyright: ignore[reportMissingTypeStubs]

from walflow.expr.functions import Function, Read, function, too_long
from walflow.expr.operators import LONGEST, CannotApply
from walflow.expr.std.string import encoded

_re2: Any = re2  # it has no types
_MOST_MEMORY: Final = 2 << 20  # bytes of one compiled pattern; RE2 would take four times that
_KEPT: Final = 32  # patterns that come with events
_group = stdlib_re.compile(r"\$(?:\$|(?P<plain>[0-9A-Za-z_]+)|\{(?P<braced>[0-9A-Za-z_]+)\})").finditer


class Found(Protocol):
    """A match. What RE2 has is untyped."""

    def group(self, group: int | str) -> str | None: ...

    def span(self) -> tuple[int, int]: ...


class Pattern:
    def __init__(self, regex: Any) -> None:
        self._regex = regex
        self.groups: frozenset[int | str] = frozenset([*range(regex.groups + 1), *regex.groupindex])

    def found(self, text: str) -> Iterator[Found]:
        """From left to right; nothing matches right behind a match, as in Rust."""
        encoded(text)  # or RE2 would raise
        end = -1
        for match in self._regex.finditer(text):
            span = match.span()
            if span != (end, end):
                yield match
            end = span[1]


@lru_cache(_KEPT)
def pattern(text: str) -> Pattern:
    options = _re2.Options()
    options.max_mem = _MOST_MEMORY
    options.log_errors = False
    encoded(text)
    try:
        return Pattern(_re2.compile(text, options))
    except _re2.error as refused:
        [reason] = refused.args
        raise CannotApply(f"the pattern cannot be read: {reason.decode(errors='replace')}") from None


class Replacement:
    """`$1`, `$name`, `${name}` and `$$` within text; a group that is not there is empty."""

    def __init__(self, text: str) -> None:
        end = 0
        self._parts: list[tuple[str, int | str | None]] = []
        for match in _group(text):
            name = match["plain"] or match["braced"]
            before = text[end : match.start()] + ("$" if name is None else "")
            self._parts.append((before, None if name is None else int(name) if name.isdecimal() else name))
            end = match.end()
        self._parts.append((text[end:], None))

    def expand(self, match: Found, groups: frozenset[int | str]) -> str:
        texts: list[str] = []
        for before, group in self._parts:
            texts.append(before)
            if group in groups:
                assert group is not None
                texts.append(match.group(group) or "")
        return "".join(texts)


_Regex = Annotated[Pattern, Read(pattern)]
_To = Annotated[Replacement, Read(Replacement)]


def replace(regex: _Regex, text: str, to: _To) -> str:
    return _replaced(regex, text, to, 1)


def replace_all(regex: _Regex, text: str, to: _To) -> str:
    return _replaced(regex, text, to, LONGEST)


def is_match(regex: _Regex, text: str) -> bool:
    return any(True for _ in regex.found(text))


def split(regex: _Regex, text: str) -> list[object]:
    pieces: list[object] = []
    end = 0
    for match in regex.found(text):
        begin, behind = match.span()
        pieces.append(text[end:begin])
        end = behind
    return [*pieces, text[end:]]


def _replaced(regex: Pattern, text: str, to: Replacement, most: int) -> str:
    pieces: list[str] = []
    end, length = 0, len(text)
    for _, match in zip(range(most), regex.found(text), strict=False):
        begin, behind = match.span()
        expanded = to.expand(match, regex.groups)
        length += len(expanded) + begin - behind
        if length > LONGEST:
            raise too_long()
        pieces += [text[end:begin], expanded]
        end = behind
    return "".join([*pieces, text[end:]])


FUNCTIONS: Mapping[str, Function] = {
    "replace": function(replace),
    "replace_all": function(replace_all),
    "is_match": function(is_match),
    "split": function(split),
}
