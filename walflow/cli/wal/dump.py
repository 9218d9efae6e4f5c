"""`walflow wal dump`."""

from typing import TYPE_CHECKING, Annotated

import typer

from walflow.cli.wal.places import EVERYTHING, From, To, positions
from walflow.cli.wal.terminal import At, end, gap_line, progress, stdout, tell, told
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from walflow.cli.wal.events import Event
    from walflow.wal.cursor import Acked


def dump(
    path: At,
    first: From = 1,
    last: To = EVERYTHING,
    raw: Annotated[bool, typer.Option("--raw", help="Print only the bytes of the payloads.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for scripts.")] = False,
) -> None:
    """Print the events that are still in a log, also acked ones. Changes nothing and takes no lock.

    Each line has: position, time of arrival, source#stream, metadata, event. Records that cannot be read are reported
    on stderr.

    Exit codes: 0 everything was read, 1 something could not be read, 74 not a log or not readable.
    """
    if raw and as_json:
        raise end("--raw and --json exclude each other", EX_USAGE)
    from walflow.cli.wal import events

    form = events.raw if raw else events.json_lines if as_json else events.text_lines
    with told():
        gaps = _dump(str(path), first, last, form)
    if gaps:
        raise typer.Exit(EX_FINDINGS)


def _dump(path: str, first: int, last: int, form: "Callable[[Acked, list[Event]], bytes]") -> int:
    from walflow.cli.wal.events import events_of
    from walflow.delivery.tag import Tags
    from walflow.wal import Gap
    from walflow.wal.tools.inspect import GONE, look, records

    out, tags, gaps = stdout(), Tags(), 0
    view = look(path)
    first, last = positions(view, first, last)
    with progress("reading", beside=True) as begin:
        for one in records(view, first, last, begin(view.bytes_from(first, last))):
            if not isinstance(one, Gap):
                out.write(form(view.found.acked, events_of(tags, one, first, last)))
            elif one.reason != GONE:
                gaps += 1
                out.flush()
                tell(gap_line(one))
    out.flush()
    return gaps
