"""`%Y-%m-%d` -> its fields and the text between them."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from walflow_kernel.errors import CannotApply

_KEPT: Final = 64  # the most formats that are remembered if they come from events
_LONGEST: Final = 1_000  # characters

FIELDS: Final = frozenset("YCyqmdejwuUWGgVHkIlMSfsbBaApPZz") | {
    *(":z", "::z", ":::z", "#z", ".f", ".3f", ".6f", ".9f", "3f", "6f", "9f"),
}


class DateFormat(NamedTuple):
    """The fields, and the text between them. A field is `Y` or `-d`: `-`, `_` or `0` says how it is padded."""

    parts: Sequence["DateLiteral | DateField"]


class DateLiteral(NamedTuple):
    text: str


class DateField(NamedTuple):
    letter: str
    fill: str | None = None


_ALIASES: Final[Mapping[str, str]] = {
    "D": "%m/%d/%y", "x": "%m/%d/%y", "F": "%Y-%m-%d", "v": "%e-%b-%Y", "R": "%H:%M", "T": "%H:%M:%S",
    "X": "%H:%M:%S", "r": "%I:%M:%S %p", "c": "%a %b %e %H:%M:%S %Y", "+": "%Y-%m-%dT%H:%M:%S%.f%:z",
    "h": "%b", "t": "\t", "n": "\n",
}  # fmt: skip
_directive = re.compile(r"%(?P<fill>[-_0]?)(?P<letter>%|:{1,3}z|#z|\.f|\.?[369]f|[A-Za-z+])")
RFC_3339: Final = "%Y-%m-%dT%H:%M:%S%.f%:z"
RFC_2822: Final = "%a, %-d %b %Y %H:%M:%S %z"


@lru_cache(_KEPT)
def date_format(text: str) -> DateFormat:
    """Raises CannotApply for an unknown field."""
    if len(text) > _LONGEST:
        raise CannotApply(f"a format has up to {_LONGEST} characters")
    return DateFormat(tuple(_parts(text)))


def _parts(text: str) -> list[DateLiteral | DateField]:
    parts: list[DateLiteral | DateField] = []
    at = 0
    while at < len(text):
        end = text.find("%", at)
        if end != at:
            parts.append(DateLiteral(text[at : end if end >= 0 else len(text)]))
            at = end if end >= 0 else len(text)
            continue
        found = _directive.match(text, at)
        letter = "" if found is None else found["letter"]
        if found is None or (letter not in FIELDS and letter not in _ALIASES and letter != "%"):
            raise CannotApply(f"`{text[at : at + 2]}` is no part of a date")
        if letter == "%":
            parts.append(DateLiteral("%"))
        elif letter in _ALIASES and letter not in FIELDS:
            parts += _parts(_ALIASES[letter])
        else:
            parts.append(DateField(letter, found["fill"] or None))
        at = found.end()
    return parts
