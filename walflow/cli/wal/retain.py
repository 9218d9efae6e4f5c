"""`walflow wal retain`."""

import json
import os
from typing import Annotated

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, end, told
from walflow.exit_codes import EX_FINDINGS, EX_USAGE


def retain(
    path: At,
    off: Annotated[bool, typer.Option("--off", help="Let a walflow open it that knows no `retain`.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up what a log has of acked events (`retain`), so that an older walflow can open it.

    Stop the daemon first. Nothing is deleted here: the next start without `retain`, of any version, deletes what is
    acked. No event that is not acked is touched. While a log keeps acked events, an older walflow refuses to open it,
    for it would delete them.

    Exit codes: 0 written; 1 the log keeps nothing; 2 without --off; 74 not a log, or its disk fails; 75 another
    process uses the log.
    """
    from walflow.wal.directory import Directory
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.repair import Hold
    from walflow.wal.tools.retain import NothingKept, forget_history
    from walflow.world import disk

    if not off:
        raise end("say --off: how much is kept stands in the flow file (`retain`, `retain_bytes`)", EX_USAGE)
    where = os.path.normpath(path)
    with told(), Hold(where):
        view = look(where)
        kept = [chunk for chunk in view.chunks if chunk.last <= view.found.acked.low]
        try:
            forget_history(Directory(where, disk()), view.found.uuid)
        except NothingKept as error:
            raise end(str(error), EX_FINDINGS) from None
        last = kept[-1].last if kept else 0
        known = {"path": where, "first": kept[0].first if kept else 0, "last": last}
        what = f"positions {known['first']} to {last}, which are acked" if kept else "what is acked"
        said = f"{where}: the next start without `retain` deletes {what}"
        typer.echo(json.dumps(known, indent=2) if as_json else printable(said))
