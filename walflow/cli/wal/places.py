"""Places in a log that a person names: a position, a time, or how long ago."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from walflow.cli.wal.terminal import EVERYTHING, a_position, end
from walflow.duration import duration_of
from walflow.exit_codes import EX_USAGE
from walflow.world import wall_ns

if TYPE_CHECKING:
    from walflow.wal.tools.inspect import View

AGO: Final = re.compile(r"-(\d+[a-z]+)")
FORMS: Final = "a position, a time as 2026-11-28T06:00:00Z, or how long ago, as -2h"


class LogMoment(NamedTuple):
    """By log time, in nanoseconds since 1970."""

    ns: int


Place = int | LogMoment


def a_place(given: str | int) -> Place:
    text = str(given)  # a default comes as what it is
    if text.isascii() and text.isdecimal():
        return a_position(given)
    try:
        if (ago := AGO.fullmatch(text)) is not None:
            return LogMoment(wall_ns() - int(str(duration_of(ago[1]))))
        told = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {FORMS}") from None
    if told.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: write {text}Z for UTC")
    return LogMoment(round(told.replace(microsecond=0).timestamp()) * 1_000_000_000 + told.microsecond * 1000)


From = Annotated[
    int, typer.Option("--from", help=f"The first one: {FORMS}.", parser=a_place, metavar="PLACE", show_default=False)
]
To = Annotated[
    int,
    typer.Option(
        "--to",
        help="The last one, included; before that time.",
        parser=a_place,
        metavar="PLACE",
        show_default=False,
    ),
]


def positions(view: "View", first: Place, last: Place) -> tuple[int, int]:
    """From the first to the last position, both included. Reads a part of one file for each time."""
    from walflow.wal.tools.inspect import position_at

    begin = position_at(view, first.ns) if isinstance(first, LogMoment) else first
    stop = position_at(view, last.ns) - 1 if isinstance(last, LogMoment) else last
    if stop < begin and isinstance(first, int) and isinstance(last, int):
        raise end(f"--to {last} comes before --from {first}", EX_USAGE)
    return begin, stop


__all__ = ["EVERYTHING", "From", "To", "positions"]
