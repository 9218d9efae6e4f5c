"""`walflow status`: asks a running daemon's admin interface for its state."""

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, AdminOption, NoAnswer, TokenOption, answered, end
from walflow.exit_codes import EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.document import ConnectorStatus, FlowStatus, Number, StandstillStatus, Status

WATCHED_EVERY = 1.0  # seconds
_STATES = {"up": "green", "finished": "green", "starting": "yellow", "restarting": "bold red", "stopped": "red"}


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
    admin_token_file: TokenOption = None,
) -> None:
    """Show a running daemon: its connectors, rates, breakers and backlogs, and parts that have stopped."""
    if watch and (ready or as_json):
        raise end("--watch excludes --ready and --json", EX_USAGE)
    client = AdminClient(admin, admin_token_file)
    with answered():
        if ready:
            _ask_ready(client)
        elif watch:
            _watch(client)
        else:
            _show(client.ask("/status"), as_json=as_json)


def _ask_ready(client: AdminClient) -> None:
    code, body = client.get("/readyz")
    lines = [printable(line) for line in body.decode(errors="replace").splitlines()]
    if code == 200:
        typer.echo("\n".join(["ready", *lines[1:]]))
        return
    raise NoAnswer("; ".join(lines) if code == 503 and lines else f"{client.endpoint} answers {code}")


def _watch(client: AdminClient) -> None:
    console = _console()
    live = Live(console=console, screen=True, auto_refresh=False) if console.is_terminal else None
    try:
        with live or nullcontext():
            while True:
                try:
                    shown = Group(*report(_read(client.ask("/status"))))
                except NoAnswer as error:  # it may be restarting
                    shown = Group(Text(printable(str(error)), "bold red"))
                if live is not None:
                    live.update(shown, refresh=True)
                else:
                    console.print(shown)
                time.sleep(WATCHED_EVERY)
    except KeyboardInterrupt:
        return


def _show(body: bytes, *, as_json: bool) -> None:
    import msgspec

    known = _read(body)
    if as_json:
        typer.echo(msgspec.json.format(body, indent=2).decode())
    else:
        _console().print(*report(known), sep="\n")


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # for a program that reads it line by line
    return console


def _read(body: bytes) -> "Status":
    import msgspec

    from walflow.admin.document import Status

    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError as error:
        raise NoAnswer(f"the program that answers is no walflow of this version: {error}") from None


def report(known: "Status") -> "list[Table | Text]":
    """The daemon in a line, a table for each flow, and a line for each thing that stops something."""
    state = "ready" if known.ready else "stopping" if known.state == "stopping" else "not ready"
    head = Text.assemble(
        f"walflow {known.version}, pid {known.pid}, up {_duration(known.uptime_seconds)}: ",
        (state, "green" if known.ready else "bold red"),
    )
    lines: list[Table | Text] = [head, *(_standstill(found) for found in known.standstills)]
    for flow in known.flows:
        lines.append(_table(flow))
        lines += [line for connector in flow.connectors for line in _troubles(connector)]
        lines += [_kept(pipeline.name, pipeline.keeps) for pipeline in flow.pipelines if pipeline.keeps]
    return lines


def _standstill(found: "StandstillStatus") -> Text:
    held = "".join(f"; {printable(line)}" for line in found.held_by)
    text = (
        f"{printable(found.source)} has stood still for {_duration(found.seconds)}: {printable(found.reason)}{held}"
    )
    return Text(text, "bold yellow")


def _table(flow: "FlowStatus") -> Table:
    table = Table(
        title=f"flow {printable(flow.name)}", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.add_column("connector")
    table.add_column("type")
    table.add_column("state")
    for column in ("in/s", "acked/s", "rejected", "failed", "in flight", "backlog"):
        table.add_column(column, justify="right")
    for connector in flow.connectors:
        table.add_row(*_row(connector))
    return table


def _row(connector: "ConnectorStatus") -> list[str | Text]:
    log = connector.log
    window = connector.window_bytes
    flying = f"{_size(connector.inflight_bytes)}, {connector.inflight_bytes / window:.0%}" if window else ""
    return [
        Text(printable(connector.name)),
        Text(connector.type),
        Text(connector.state, _STATES[connector.state]),
        _rate(connector.rates.get("received")),
        _rate(connector.rates.get("acked")),
        f"{connector.events.get('rejected', 0):,}",
        f"{connector.events.get('failed', 0):,}",
        flying,
        _backlog(log) if log is not None else "",
    ]


def _backlog(log: "dict[str, Number]") -> str:
    events = log.get("backlog_events", 0)
    age = f", {_duration(log.get('oldest_seconds', 0))} old" if events else ""
    return f"{events:,} ({_size(log.get('backlog_bytes', 0))}{age})"


def _troubles(connector: "ConnectorStatus") -> list[Text]:
    lines: list[Text] = []
    name = printable(connector.name)
    if connector.reason:
        lines.append(Text(f"{name} is {connector.state}: {printable(connector.reason)}", "red"))
    if connector.breaker is not None:
        text = f": {printable(connector.breaker.text)}" if connector.breaker.text else ""
        lines.append(Text(f"{name} stops its sources, {connector.breaker.reason}{text}", "yellow"))
    lines += [
        Text(f"{name} may not read: {printable(shut.by)}: {printable(shut.reason)}", "yellow")
        for shut in connector.gate
    ]
    return lines


def _kept(name: str, keeps: "dict[str, Number]") -> Text:
    text = f"{printable(name)} keeps {_size(keeps.get('state_bytes', 0))}"
    if "window_open" in keeps:
        text += f" in {keeps['window_open']:,.0f} open windows of {keeps.get('window_groups', 0):,.0f} groups"
        text += f", the oldest {_duration(keeps.get('window_oldest_seconds', 0))} old"
        text += f"; {keeps.get('window_late_events_total', 0):,.0f} late events"
    return Text(text)


def _rate(events: float | None) -> str:
    return "" if events is None else f"{events:,.0f}" if events >= 10 or not events else f"{events:.1f}"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
