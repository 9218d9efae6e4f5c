"""`walflow replay`."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from walflow.admin.text import printable
from walflow.cli import logs
from walflow.cli.flow_args import FlowArgs
from walflow.cli.wal.places import shown_place
from walflow.cli.wal.terminal import agreed, end, told
from walflow.exit_codes import EX_CONFIG, EX_FINDINGS, EX_USAGE
from walflow.log_place import FORMS, first_position, last_position, place_of

if TYPE_CHECKING:
    from walflow.contract import LogReplayer, ReplayProgress
    from walflow.plan import Assembly
    from walflow.runtime.daemon import Daemon

LOOK: Final = 0.5  # seconds between two pictures of the progress


def replay(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The log's directory, as the flow file names it.", readable=False)
    ],
    files: Annotated[list[Path], typer.Argument(help="The flow files with the log and the sink.")],
    into: Annotated[
        str, typer.Option("--into", metavar="SINK", help="The sink: FLOW::NAME, or NAME if there is one of it.")
    ],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=f"The first event: {FORMS}. Default: the oldest one.",
            metavar="PLACE",
            callback=shown_place,
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="The last event, included; before that time. Default: the newest one.",
            metavar="PLACE",
            callback=shown_place,
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            help="By the events' times of arrival: 1 as they came. Default: as fast as the sink takes them."
        ),
    ] = None,
    workdir: Annotated[Path, typer.Option(help="The directory for relative paths, as of the daemon.")] = Path(),
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Send what a log has once more, into one sink of a flow, and into no other.

    The events go the way that they have in the flow, from the log through its pipelines to the sink. The log is only
    read: a daemon may use it meanwhile, and what is acked there does not change. The sink has the settings of the
    flow, and a connection of its own. If it is away, or a file that the daemon has open, it is waited for. Acked
    events are there if the log keeps them (`retain`).

    Each event has the metadata `$replay`. A receiver that is sent an event again gets it again.

    Exit codes: 0 each event was acked; 1 some were rejected or could not be read, there is none, or it was stopped
    before its end; 2 wrong options; 74 not a log; 78 the flow has an error, or no such way.
    """
    from walflow.runtime.daemon import Settings, run as run_daemon

    if speed is not None and not 0 < speed < math.inf:
        raise end(f"--speed {speed:g}: a number above 0", EX_USAGE)
    files = [file if file.is_absolute() else Path(os.path.relpath(file, workdir)) for file in files]
    try:
        os.chdir(workdir)
    except OSError as error:
        raise end(f"--workdir {workdir}: {error.strerror}", EX_USAGE) from None
    logs.configure("auto", "warning")
    with told():
        flows = _loaded(files, args)
        extent = _extent(str(path), begin, last)
        flows, replayer = _planned(flows, str(path), into, extent, speed)
    if extent.last < extent.first:
        known = f"it has positions {extent.oldest} to {extent.newest}"
        raise end(f"no event of {path} is within these bounds; {known}", EX_FINDINGS)
    ways = ", ".join(str(plan.id) for plan in flows.pipelines)
    through = f" through {ways}" if ways else ""
    what = f"{extent.last - extent.first + 1:,} events, positions {extent.first} to {extent.last} of {path}"
    typer.echo(printable(f"{what}, go{through} to {into}"))
    if not agreed(typer.echo, dry_run=dry_run, yes=yes):
        raise typer.Exit(0)
    watched = _Watched(replayer.progress)
    code = run_daemon(flows, Settings(), watched.beside)
    typer.echo(printable(watched.result()))
    raise typer.Exit(code or (0 if watched.is_complete else EX_FINDINGS))


def _loaded(files: list[Path], args: list[str]) -> "Assembly":
    from walflow.diagnostics import render_all
    from walflow.plan import load

    flows, diagnostics = load(files, args=args, allow_cycles=True, reads_secrets=True)
    if flows is None:
        typer.echo(render_all(diagnostics), err=True)
        raise typer.Exit(EX_CONFIG)
    return flows


class _Extent(NamedTuple):
    """Positions: the first and the last one that are wanted and there, and those of the log."""

    first: int
    last: int
    oldest: int
    newest: int


def _extent(path: str, begin: str | None, last: str | None) -> _Extent:
    """Once, so that what is asked about is what is sent: how long ago counts from now."""
    from walflow.wal.tools.inspect import look, position_at

    view = look(path)
    at = partial(position_at, view)
    newest = view.found.durable
    oldest = view.chunks[0].first if view.chunks else newest + 1
    first = oldest if begin is None else max(oldest, first_position(place_of(begin), at))
    return _Extent(first, newest if last is None else min(newest, last_position(place_of(last), at)), oldest, newest)


def _planned(
    flows: "Assembly", path: str, sink: str, extent: _Extent, speed: float | None
) -> "tuple[Assembly, LogReplayer]":
    from walflow.errors import Misconfigured
    from walflow.plan.replay import replay_into, replayer
    from walflow.registry import connectors

    first = str(extent.first)
    instance = replayer(connectors()).replaying(path, first, str(max(extent.last, extent.first)), speed)
    try:
        return replay_into(flows, path, sink, instance), instance
    except Misconfigured as error:
        raise end(str(error), EX_CONFIG) from None


class _Watched:
    """A replay that runs: its bar on stderr, if stderr is a terminal, and what became of it."""

    def __init__(self, progress: "ReplayProgress") -> None:
        self._progress = progress
        self._rejected = 0

    @property
    def is_complete(self) -> bool:
        return self._progress.over and not (self._progress.missed or self._rejected)

    @asynccontextmanager
    async def beside(self, daemon: "Daemon") -> AsyncGenerator[None]:
        showing = asyncio.create_task(self._show())
        try:
            yield
        finally:
            showing.cancel()
            self._rejected = sum(
                round(one.value) for one in daemon.metrics.values() if one.name.endswith("rejected_events_total")
            )

    def result(self) -> str:
        known = self._progress
        kept = f"{known.events:,} events were sent, and have their outcome"
        counted = {"were rejected": self._rejected, "could not be read": known.missed}
        kept += "".join(f", {count:,} {what}" for what, count in counted.items() if count)
        if known.over:
            return kept
        further = f". Go on with --from {known.settled_to + 1}" if known.settled_to else ""
        return f"{kept}; it was stopped before its end{further}"

    async def _show(self) -> None:
        console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=None)
            while True:
                known = self._progress
                if known.end:
                    done = max(known.settled_to + 1 - known.first, 0)
                    bar.update(task, total=known.end + 1 - known.first, completed=done)
                await asyncio.sleep(LOOK)
