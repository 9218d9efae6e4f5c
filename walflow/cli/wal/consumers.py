"""`walflow wal consumers` and `walflow wal forget`."""

import json
import os
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from walflow.admin.text import printable
from walflow.cli.figures import duration
from walflow.cli.wal.terminal import AsJson, At, end, told
from walflow.exit_codes import EX_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walflow.wal import ConsumerFile
    from walflow.wal.consumer_file import Fields
    from walflow.wal.tools.inspect import View


class ConsumerLine(NamedTuple):
    """What `wal consumers --json` prints of each. `position`: the next one that it reads; `lag`: the events from
    there on. `committed_at`: of its last commit, by RFC 3339; None: there was none. `silent_seconds`: about how long
    it has not been connected although there were events for it, while walflow ran."""

    name: str
    position: int
    lag: int
    committed_at: str | None
    peer: str
    silent_seconds: int


def consumers(path: At, as_json: AsJson = False) -> None:
    """List the Spark queries that a log knows, and how far each is. No event is deleted before each of them has
    committed it. Changes nothing and takes no lock, so a daemon may use the log meanwhile.

    Exit codes: 0 shown, 74 not a log of `spark`, or not readable.
    """
    from walflow.wal.tools.inspect import look

    with told():
        view = look(os.path.normpath(path))
        file = _file(view)
        try:
            found = [_line(view, name, fields) for name, fields in sorted(_read(file, view).items())]
        finally:
            file.close()
        if as_json:
            typer.echo(json.dumps([one._asdict() for one in found], indent=2))
            return
        for one in found:
            typer.echo(printable(_told(one)))
        if not found:
            typer.echo("no consumer is known")


def forget(
    path: At,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The consumer, as `wal consumers` lists it.")],
    as_json: AsJson = False,
) -> None:
    """Forget a Spark query that will not come back. Events that only it had not committed are deleted at the next
    start of the daemon. Stop the daemon first. A consumer that the flow names begins anew, at the first event that is
    still there.

    Exit codes: 0 forgotten, 1 there is no such consumer, 74 not a log of `spark`, or its disk fails, 75 another
    process uses the log.
    """
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.repair import Hold

    where = os.path.normpath(path)
    with told(), Hold(where):
        view = look(where)
        file = _file(view)
        try:
            known = _read(file, view)
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                raise end(f"{where}: there is no consumer {name!r}; there are: {names}", EX_FINDINGS)
            gone = _line(view, name, known[name])
            file.write({one: fields for one, fields in known.items() if one != name})
        finally:
            file.close()
        text = f"forgotten: {name} in {where}, which lacked {gone.lag:,} events"
        typer.echo(json.dumps(gone._asdict(), indent=2) if as_json else printable(text))


def _file(view: "View") -> "ConsumerFile":
    """Raises Unusable."""
    from walflow.errors import Unusable
    from walflow.wal import CONSUMERS, ConsumerFile, Directory

    directory = Directory(view.directory.path, view.directory.disk)
    if CONSUMERS not in directory.disk.names(directory.path):
        raise Unusable(f"{directory.path}: is no log of `spark`: it has no file {CONSUMERS}")
    return ConsumerFile(directory, view.found.uuid.hex())


def _read(file: "ConsumerFile", view: "View") -> "Fields":
    """Raises Unusable."""
    from walflow.errors import Unusable

    try:
        return file.read()
    except ValueError as error:
        raise Unusable(f"{view.directory.path}/consumers: {error}") from None


def _line(view: "View", name: str, fields: "Mapping[str, object]") -> ConsumerLine:
    from datetime import UTC, datetime

    position, time_ns, silent = (int(str(fields.get(key, 0))) for key in ("position", "time_ns", "silent"))
    at = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC) if time_ns else None
    committed = f"{at:%Y-%m-%dT%H:%M:%SZ}" if at is not None else None
    lag = max(0, view.found.durable + 1 - position)
    return ConsumerLine(name, position, lag, committed, str(fields.get("peer", "")), silent)


def _told(one: ConsumerLine) -> str:
    last = f"last commit {one.committed_at}" if one.committed_at else "no commit"
    peer = f" from {one.peer}" if one.peer and one.committed_at else ""
    away = f", away for {duration(one.silent_seconds)}" if one.silent_seconds else ""
    return f"{one.name}: at {one.position:,}, lacks {one.lag:,} events, {last}{peer}{away}"
