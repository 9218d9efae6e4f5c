"""`--from` and `--to`: places in a log that a person names."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from walflow.cli.wal.terminal import EVERYTHING, end
from walflow.exit_codes import EX_USAGE
from walflow.log_place import FORMS, LogMoment, Place, first_position, last_position, place_of

if TYPE_CHECKING:
    from walflow.wal.tools.inspect import View


def a_place(given: str | int) -> Place:
    try:
        return place_of(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def shown_place(given: str | None) -> str | None:
    """As it is written: how long ago is known when it is used."""
    if given is not None:
        a_place(given)
    return given


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

    at = partial(position_at, view)
    begin, stop = first_position(first, at), last_position(last, at)
    if stop < begin and not isinstance(first, LogMoment) and not isinstance(last, LogMoment):
        raise end(f"--to {last} comes before --from {first}", EX_USAGE)
    return begin, stop


__all__ = ["EVERYTHING", "From", "To", "positions", "shown_place"]
