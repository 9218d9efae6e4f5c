"""std::re, by RE2: the time of one match is in proportion to the length of the text, for any pattern. The number of
matches is too, so what looks for all of them has a budget."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Protocol

import re2  # pyright: ignore[reportMissingTypeStubs]

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, Read, function, too_long
from walflow_kernel.std.string import encoded
from walflow_kernel.values import LONGEST

_re2: Any = re2  # it has no types
MOST_MEMORY: Final = 2 << 20  # the most bytes of one compiled pattern; RE2 itself allows four times as many
SEARCHED: Final = 128 << 20  # bytes that one call may look at, see `Pattern.matches`
_KEPT: Final = 32  # the most patterns that are remembered if they come from events
_group = re.compile(r"\$(?:\$|(?P<plain>[0-9A-Za-z_]+)|\{(?P<braced>[0-9A-Za-z_]+)\})").finditer


class Match(Protocol):
    """Places are in bytes. In a string, the wrapper of RE2 would count characters, which takes most of its time."""

    def group(self, group: int | str) -> bytes | None: ...

    def span(self, group: int = 0) -> tuple[int, int]: ...


Spans = Sequence[tuple[int, int]]
"""Of a match and of its groups, in bytes; (-1, -1) of one that took no part in it."""


def _spans_by_wrapper(regex: Any, text: bytes) -> Spans | None:
    match = regex.search(text)
    return None if match is None else [match.span(number) for number in range(regex.groups + 1)]


def _spans(regex: Any) -> Callable[[bytes], Spans | None]:
    """The first match of a text. RE2's wrapper makes a generator, an object, and a call for each group of it: four
    fifths of the time of a match of a line. So it is asked below the wrapper, if that is as we know it."""
    try:
        find, anywhere = regex._regexp.Match, _re2._Anchor.UNANCHORED
        find(anywhere, b"", 0, 0)
    except (AttributeError, TypeError):
        return partial(_spans_by_wrapper, regex)

    def spans(text: bytes) -> Spans | None:
        found: Spans = find(anywhere, text, 0, len(text))
        return found if found[0][0] >= 0 else None

    return spans


class Pattern:
    """`spans`: the first match of a text, see `Spans`."""

    def __init__(self, regex: Any, text: str) -> None:
        self._regex = regex
        self.spans = _spans(regex)
        self._text = text
        self._looks_ahead = _looks_ahead(text)
        self.named: Sequence[tuple[str, int]] = tuple(regex.groupindex.items())
        self.groups: frozenset[int | str] = frozenset([*range(regex.groups + 1), *regex.groupindex])

    def __reduce__(self) -> tuple[Any, ...]:
        return pattern, (self._text,)

    def is_in(self, text: bytes) -> bool:
        return self.spans(text) is not None

    def matches(self, text: bytes) -> Iterator[Match]:
        """From left to right. There is no empty match directly after a match, as in Rust, and none within a
        character.

        `a(.*b)?` may look at all that follows for each `a`. RE2 does not say how far it has looked, so with such a
        pattern each match counts as the rest of the text. Raises CannotApply where that is more than SEARCHED."""
        end = -1
        left, length = SEARCHED, len(text) if self._looks_ahead else 0
        for match in self._regex.finditer(text):
            begin, behind = match.span()
            if length:
                left -= length - begin
                if left < 0:
                    raise CannotApply(f"it would search more than {SEARCHED:,} bytes for all matches")
            if begin < behind or (begin != end and not _within_character(text, begin)):
                yield match
            end = behind


def _looks_ahead(pattern: str) -> bool:
    """Whether a match may end long before the place up to which it was looked for: a part that takes any length is in
    a choice, or in a group that is repeated or optional. Elsewhere a match ends where such a part does."""
    plain = _atoms.sub("x", pattern)
    return bool(_endless(plain)) and ("|" in plain or bool(_repeated(plain)))


_atoms = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]", re.DOTALL)
_endless = re.compile(r"[*+]|\{\d*,\}").search
_repeated = re.compile(r"\)[*+?{]").search


def _within_character(text: bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80


@lru_cache(_KEPT)
def pattern(text: str) -> Pattern:
    encoded(text)  # or RE2 would raise
    options = _re2.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    try:
        return Pattern(_re2.compile(text, options), text)
    except _re2.error as refused:
        [reason] = refused.args
        raise CannotApply(f"the pattern cannot be read: {reason.decode(errors='replace')}") from None


class Replacement:
    """`$1`, `$name`, `${name}` and `$$` in a text. A group that does not exist is empty."""

    def __init__(self, text: str) -> None:
        end = 0
        self._parts: list[tuple[bytes, int | str | None]] = []
        for match in _group(text):
            name = match["plain"] or match["braced"]
            before = text[end : match.start()] + ("$" if name is None else "")
            self._parts.append((encoded(before), None if name is None else int(name) if name.isdecimal() else name))
            end = match.end()
        self._parts.append((encoded(text[end:]), None))

    def expand(self, match: Match, groups: frozenset[int | str]) -> bytes:
        texts: list[bytes] = []
        for before, group in self._parts:
            texts.append(before)
            if group is not None and group in groups:
                texts.append(match.group(group) or b"")
        return b"".join(texts)


_Regex = Annotated[Pattern, Read(pattern)]
_To = Annotated[Replacement, Read(Replacement)]


def replace(regex: _Regex, text: str, to: _To) -> str:
    return _replaced(regex, encoded(text), to, 1)


def replace_all(regex: _Regex, text: str, to: _To) -> str:
    return _replaced(regex, encoded(text), to, LONGEST)


def is_match(regex: _Regex, text: str) -> bool:
    return regex.is_in(encoded(text))


def split(regex: _Regex, text: str) -> list[object]:
    data = encoded(text)
    pieces: list[object] = []
    end = 0
    for match in regex.matches(data):
        begin, behind = match.span()
        pieces.append(_decoded(data[end:begin]))
        end = behind
    return [*pieces, _decoded(data[end:])]


def _replaced(regex: Pattern, text: bytes, to: Replacement, most: int) -> str:
    pieces: list[bytes] = []
    end, length = 0, len(text)
    for _, match in zip(range(most), regex.matches(text), strict=False):
        begin, behind = match.span()
        expanded = to.expand(match, regex.groups)
        length += len(expanded) + begin - behind
        if length > LONGEST:
            raise too_long()
        pieces += [text[end:begin], expanded]
        end = behind
    return _decoded(b"".join([*pieces, text[end:]]))


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")  # `\C` may match a part of a character


FUNCTIONS: Mapping[str, Function] = {
    "replace": function(replace, grows=True),
    "replace_all": function(replace_all, grows=True),
    "is_match": function(is_match),
    "split": function(split),
}
