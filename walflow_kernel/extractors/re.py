"""`re|(?P<key>[^=]+)=(?P<value>.*)|`: a record of the named groups of the first match, in RE2's syntax."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_bytes, shown
from walflow_kernel.std.re import Pattern, pattern

NAMED: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+\]|\(\?P?<(?=[^=!])([^>]*)>", re.DOTALL)
"""The beginning of a named group; and, without a name, what is escaped or within brackets,
for there is none in it."""


def extractor(argument: str) -> Extract:
    return of_bytes(partial(first, named(argument)))


def named(text: str) -> Pattern:
    """A regular expression whose groups are stored by name."""
    made = compiled(text)
    names: set[str] = set()
    for name in _names(text):
        if name in names:
            raise BadExtractor(f"two groups are called `{shown(name)}`")
        names.add(name)
    return made


def _names(text: str) -> Iterator[str]:
    for group in NAMED.finditer(text):
        if group[1] is not None:
            yield group[1]


def compiled(text: str) -> Pattern:
    try:
        return pattern(text)
    except CannotApply as refused:
        raise BadExtractor(str(refused)) from None


def first(regex: Pattern, text: bytes) -> object:
    """Groups that took no part in the match are left out, as in tremor."""
    spans = regex.spans(text)
    if spans is None:
        return NO_MATCH
    found: dict[str, object] = {}
    for name, number in regex.named:
        begin, end = spans[number]
        if begin >= 0:
            found[name] = text[begin:end].decode(errors="replace")
    return found
