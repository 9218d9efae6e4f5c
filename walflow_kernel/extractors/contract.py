"""Common to all extractors."""

from collections.abc import Callable
from functools import partial
from typing import Final

Extract = Callable[[object], object]
"""A value -> what was extracted from it, or NO_MATCH."""


class BadExtractor(Exception):
    """The extractor does not exist, or its argument is wrong. The text is a sentence for the author of the file."""


class NoMatch:
    """There is one object, NO_MATCH. null would not do: `json||` may find it."""

    def __repr__(self) -> str:
        return "NO_MATCH"

    def __reduce__(self) -> str:
        return "NO_MATCH"  # there is one on an executor, too


NO_MATCH: Final = NoMatch()


def of_string(extract: Callable[[str], object]) -> Extract:
    """Only a string can match."""
    return partial(_of_string, extract)  # no function within: it goes to Spark's executors, by its name


def of_bytes(extract: Callable[[bytes], object]) -> Extract:
    """The same for an extractor that takes the UTF-8 of a string."""
    return partial(_of_bytes, extract)


def _of_string(extract: Callable[[str], object], value: object) -> object:
    return extract(value) if type(value) is str else NO_MATCH


def _of_bytes(extract: Callable[[bytes], object], value: object) -> object:
    if type(value) is not str:
        return NO_MATCH
    try:
        data = value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        return NO_MATCH
    return extract(data)


def takes_nothing(argument: str) -> None:
    if argument:
        raise BadExtractor(f"it takes nothing between its bars, not `{shown(argument)}`")


def shown(text: str) -> str:
    return text if len(text) <= 40 and text.isprintable() else f"{text[:37]!r}…"
