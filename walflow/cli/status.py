"""`walflow status`: asks a running daemon's admin interface for its state."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, AdminOption, NoAnswer, TokenOption, answered, end
from walflow.cli.figures import duration, size
from walflow.cli.node_table import rows_of, table_of, total_of
from walflow.exit_codes import EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.document import (
        ConnectorStatus,
        FlowStatus,
        LaneStatus,
        Number,
        StandstillStatus,
        Status,
        WaitStatus,
    )

WATCHED_EVERY = 1.0  # seconds
SOON = 86_400  # seconds: no line about a log that will be full later
LEAD = 3600  # seconds: from so far ahead on a log's time is something to see to


def status(
    admin: AdminOption = "127.0.0.1:9898",
    as_json: Annotated[bool, typer.Option("--json", help="Print the daemon's JSON document, for scripts.")] = False,
    ready: Annotated[
        bool,
        typer.Option(
            "--ready", help="Only check whether the daemon is ready (exit code 69 if not), and show what has stopped."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show it anew every second, until Ctrl-C; also over a restart of the daemon."),
    ] = False,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck",
            help="Show the events that a sink has failed and that wait to be sent again: position, sink, tries, next try, last error.",
        ),
    ] = False,
    admin_token_file: TokenOption = None,
) -> None:
    """Show a running daemon: its connectors, rates, breakers and backlogs, and parts that have stopped."""
    if watch and (ready or as_json or stuck):
        raise end("--watch excludes --ready, --json and --stuck", EX_USAGE)
    if stuck and (ready or as_json):
        raise end("--stuck excludes --ready and --json; the document of --json has what --stuck shows", EX_USAGE)
    client = AdminClient(admin, admin_token_file)
    with answered():
        if ready:
            _ask_ready(client)
        elif watch:
            refresh(client, report)
        elif stuck:
            show(stuck_events(read(client.ask("/status"))))
        else:
            body = client.ask("/status")
            known = read(body)
            if as_json:
                import msgspec

                typer.echo(msgspec.json.format(body, indent=2).decode())
            else:
                show(report(known))


def _ask_ready(client: AdminClient) -> None:
    code, body = client.get("/readyz")
    lines = [printable(line) for line in body.decode(errors="replace").splitlines()]
    if code == 200:
        typer.echo("\n".join(["ready", *lines[1:]]))
        return
    raise NoAnswer("; ".join(lines) if code == 503 and lines else f"{client.endpoint} answers {code}")


def refresh(client: AdminClient, shown: Callable[["Status"], Sequence[RenderableType]]) -> None:
    console = _console()
    live = Live(console=console, screen=True, auto_refresh=False) if console.is_terminal else None
    try:
        with live or nullcontext():
            while True:
                try:
                    lines = Group(*shown(read(client.ask("/status"))))
                except NoAnswer as error:  # it may be restarting
                    lines = Group(Text(printable(str(error)), "bold red"))
                if live is not None:
                    live.update(lines, refresh=True)
                else:
                    console.print(lines)
                time.sleep(WATCHED_EVERY)
    except KeyboardInterrupt:
        return


def show(lines: Sequence[RenderableType]) -> None:
    _console().print(*lines, sep="\n")


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # for a program that reads it line by line
    return console


def read(body: bytes) -> "Status":
    import msgspec

    from walflow.admin.document import Status

    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError as error:
        raise NoAnswer(f"the program that answers is no walflow of this version: {error}") from None


def report(known: "Status") -> list[RenderableType]:
    """The daemon in a line, a table for each flow with its totals, and a line for each thing that stops something."""
    lines: list[RenderableType] = [head(known), *map(_wait, known.waits), *map(_standstill, known.standstills)]
    for flow in known.flows:
        rows = rows_of(flow, pipelines=True)
        lines.append(table_of([*rows, total_of(rows)], f"flow {printable(flow.name)}"))
        lines += [line for connector in flow.connectors for line in troubles(connector, flow)]
        lines += [_kept(pipeline.name, pipeline.keeps) for pipeline in flow.pipelines if pipeline.keeps]
    return lines


def head(known: "Status") -> Text:
    state = "ready" if known.ready else "stopping" if known.state == "stopping" else "not ready"
    return Text.assemble(
        f"walflow {known.version}, pid {known.pid}, up {duration(known.uptime_seconds)}: ",
        (state, "green" if known.ready else "bold red"),
    )


def _wait(found: "WaitStatus") -> Text:
    text = f"{printable(found.who)} has waited {duration(found.seconds)} for {printable(found.call)}"
    return Text(text, "bold yellow")


def _standstill(found: "StandstillStatus") -> Text:
    held = "".join(f"; {printable(line)}" for line in found.held_by)
    text = f"{printable(found.source)} has stood still for {duration(found.seconds)}: {printable(found.reason)}{held}"
    return Text(text, "bold yellow")


def troubles(connector: "ConnectorStatus", flow: "FlowStatus") -> list[Text]:
    lines: list[Text] = []
    name = printable(connector.name)
    known = connector.log or {}
    full_in = 0 if known.get("full") else known.get("full_in_seconds")
    if full_in is not None and full_in < SOON:
        gates = [connector.gate, *(lane.gate for lane in connector.lanes)]
        shut = [f"{shut.by} stops it" for gate in gates for shut in gate if shut.by not in ("window", "drain")]
        shut += [f"{lane.name} lacks {_lag(lane)}" for lane in connector.lanes if lane.events]
        held = "".join(f"; {printable(line)}" for line in [*connector.held_by, *shut])
        when = f"will be full in {duration(full_in)} at this rate" if full_in else "is full"
        lines.append(Text(f"{name} {when}{held}", "yellow"))
    if (lead := known.get("clock_lead_seconds", 0)) >= LEAD:
        lines.append(Text(f"{name} stamps events {duration(lead)} ahead of the clock, which was set back", "yellow"))
    if connector.reason:
        lines.append(Text(f"{name} is {connector.state}: {printable(connector.reason)}", "red"))
    if connector.breaker is not None:
        text = f": {printable(connector.breaker.text)}" if connector.breaker.text else ""
        lines.append(Text(f"{name} stops {_stopped(connector, flow)}, {connector.breaker.reason}{text}", "yellow"))
    if connector.failed:
        lines.append(_failed_line(connector))
    lines += [
        Text(f"{name} may not read: {printable(shut.by)}: {printable(shut.reason)}", "yellow")
        for shut in connector.gate
    ]
    lines += [
        Text(
            f"{name} does not send to {printable(lane.name)}, which lacks {_lag(lane)}: {printable(shut.by)}: {printable(shut.reason)}",
            "yellow",
        )
        for lane in connector.lanes
        for shut in lane.gate
    ]
    return lines


def stuck_events(known: "Status") -> list[RenderableType]:
    """A table for each connector with events that failed, and what to do; or a line."""
    lines: list[RenderableType] = []
    for flow in known.flows:
        for connector in flow.connectors:
            if not connector.failed:
                continue
            name = printable(f"{flow.name}::{connector.name}")
            table = Table(
                title=f"{name}: {connector.failed_events:,} events have failed and wait", title_justify="left"
            )
            for heading in ("position", "events", "sink", "tries", "attempts", "next try", "last error"):
                table.add_column(heading, justify="left" if heading in ("sink", "last error") else "right")
            for part in connector.failed:
                table.add_row(
                    f"{part.position:,}",
                    f"{part.events:,}",
                    printable(part.sink),
                    f"{part.tries:,}",
                    f"{part.attempts:,}",
                    f"{part.seconds:.1f} s",
                    printable(part.cause),
                )
            lines.append(table)
    if not lines:
        return [Text("no event waits to be sent again")]
    lines.append(
        Text(
            "An event leaves by err after max_attempts of its source; of a log, `walflow wal skip` takes one out by hand."
        )
    )
    return lines


def _failed_line(connector: "ConnectorStatus") -> Text:
    first = connector.failed[0]
    more = f"{connector.failed_events:,} event{' has' if connector.failed_events == 1 else 's have'} failed"
    told = f"the oldest at position {first.position:,}, {first.tries:,} times at {printable(first.sink)}: {printable(first.cause)}"
    return Text(f"{printable(connector.name)}: {more}, {told}; walflow status --stuck shows them", "yellow")


def _stopped(sink: "ConnectorStatus", flow: "FlowStatus") -> str:
    """What a sink whose breaker is open stops: of a log with several lanes its own alone."""
    own = f"{flow.name}::{sink.name}"
    logs = [one.name for one in flow.connectors for lane in one.lanes if any(shut.by == own for shut in lane.gate)]
    others = any(shut.by == own for one in flow.connectors for shut in one.gate)
    lanes = ", ".join(f"its lane of {printable(name)}" for name in dict.fromkeys(logs))
    return f"its sources and {lanes}" if lanes and others else lanes or "its sources"


def _lag(lane: "LaneStatus") -> str:
    events = f"{lane.events:,} event{'' if lane.events == 1 else 's'}, {size(lane.bytes)}"
    return f"{events}, the oldest {duration(lane.seconds)} old" if lane.seconds else events


def _kept(name: str, keeps: "dict[str, Number]") -> Text:
    text = f"{printable(name)} keeps {size(keeps.get('state_bytes', 0))}"
    if "window_open" in keeps:
        text += f" in {keeps['window_open']:,.0f} open windows of {keeps.get('window_groups', 0):,.0f} groups"
        text += f", the oldest {duration(keeps.get('window_oldest_seconds', 0))} old"
        text += f"; {keeps.get('window_late_events_total', 0):,.0f} late events"
    return Text(text)
