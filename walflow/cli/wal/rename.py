"""`walflow wal rename`."""

import json
import os
from typing import Annotated

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, end, told
from walflow.exit_codes import EX_FINDINGS


def rename(
    path: At,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The sink's old name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The sink's new name, as in the flow file.")],
    as_json: AsJson = False,
) -> None:
    """Rename the mark of a sink, after it got another name in the flow file.

    Stop the daemon first. Without this, a sink with a new name is a new sink: it gets again what it acked before
    other sinks did. No event is lost either way. A log that an older walflow wrote may have one mark for a lane of
    several sinks, by all their names, as near+far.

    Exit codes: 0 renamed; 1 the log has no mark of OLD, or has one of NEW; 74 not a log, or its disk fails; 75
    another process uses the log.
    """
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.rename import CannotRename, rename as rename_mark
    from walflow.wal.tools.repair import Hold

    where = os.path.normpath(path)
    with told(), Hold(where):
        uuid = look(where).found.uuid  # so that no file is made where there is no log
        try:
            rename_mark(where, uuid, old, new)
        except CannotRename as error:
            raise end(str(error), EX_FINDINGS) from None
        known = {"path": where, "old": old, "new": new}
        typer.echo(json.dumps(known, indent=2) if as_json else printable(f"renamed: {old} is {new} in {where}"))
