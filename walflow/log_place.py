"""A place in a log that a person names: a position, a time, or how long ago."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field

from walflow.duration import duration_of
from walflow.world import wall_ns

HIGHEST: Final = (1 << 64) - 1  # position
FORMS: Final = "a position, a time as 2026-11-28T06:00:00Z, or how long ago, as -2h"
_AGO: Final = re.compile(r"-(\d+[a-z]+)")


class LogMoment(NamedTuple):
    """By log time, in nanoseconds since 1970."""

    ns: int


Place = int | LogMoment


def position_of(given: str | int) -> int:
    """Raises ValueError."""
    text = str(given)
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= HIGHEST:
        return int(text)
    raise ValueError(f"{text!r} is not a position: positions are integers from 1")


def place_of(given: str | int) -> Place:
    """How long ago: from now on. Raises ValueError."""
    text = str(given)
    if text.isascii() and text.isdecimal():
        return position_of(text)
    try:
        if (ago := _AGO.fullmatch(text)) is not None:
            return LogMoment(wall_ns() - int(str(duration_of(ago[1]))))
        told = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {FORMS}") from None
    if told.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write {text}Z for UTC")
    return LogMoment(round(told.replace(microsecond=0).timestamp()) * 1_000_000_000 + told.microsecond * 1000)


def first_position(place: Place, at: Callable[[int], int]) -> int:
    """The first one at that place or behind it. `at`: the first position at a time."""
    return at(place.ns) if isinstance(place, LogMoment) else place


def last_position(place: Place, at: Callable[[int], int]) -> int:
    """The last one at that place, or before that time."""
    return at(place.ns) - 1 if isinstance(place, LogMoment) else place


def _is_place(given: str | int) -> str | int:
    place_of(given)
    return given


LogPlace = Annotated[Annotated[int, Field(strict=True)] | str, AfterValidator(_is_place)]
"""As it is written, because how long ago is known when it is used."""
