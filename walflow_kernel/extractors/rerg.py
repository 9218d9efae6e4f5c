"""`rerg|(?P<key>[^=]+)=(?P<value>[^&]*)&|`: a record of the named groups, each with an array of its text in all
matches."""

from functools import partial
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors.contract import NO_MATCH, Extract, of_bytes
from walflow_kernel.extractors.re import named
from walflow_kernel.std.re import Pattern

MOST: Final = 1 << 16  # the most matches: each takes some 5 µs, and nothing else runs meanwhile


def extractor(argument: str) -> Extract:
    return of_bytes(partial(_all, named(argument)))


def _all(regex: Pattern, text: bytes) -> object:
    found: dict[str, list[str]] = {}
    number = 0
    for number, match in enumerate(regex.matches(text), start=1):
        if number > MOST:
            raise CannotApply(f"`rerg` finds more than {MOST} matches")
        for name, group in regex.named:
            begin, end = match.span(group)
            if begin >= 0:
                found.setdefault(name, []).append(text[begin:end].decode(errors="replace"))
    return found if number else NO_MATCH
