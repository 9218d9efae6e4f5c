"""`walflow status`: asks a running daemon's admin interface for its state."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walflow.admin.text import printable
from walflow.cli.admin_client import (
    STRANGER,
    AdminClient,
    AdminOption,
    NoAnswer,
    TokenOption,
    answered,
    end,
    understood,
)
from walflow.cli.figures import duration, size
from walflow.cli.node_table import rows_of, table_of, total_of
from walflow.exit_codes import EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.document import (
        ConnectorStatus,
        ConsumerStatus,
        FlowStatus,
        LaneStatus,
        LettersStatus,
        Number,
        ReloadStatus,
        RequestStatus,
        Shut,
        StandstillStatus,
        Status,
        WaitStatus,
    )

WATCHED_EVERY = 1.0  # seconds
ASKED_EVERY = 0.1  # seconds, by --wait
SOON = 86_400  # seconds: no line about a log that will be full later
DRAIN = "drain"  # the reason of each gate while the daemon stops
LEAD = 3600  # seconds: from so far ahead on a log's time is something to see to


def a_duration(text: str) -> float:
    """Seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text} is no duration; write 30s, 2m or 500ms")
    return float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[found[2] or "s"]


def status(
    admin: AdminOption = "127.0.0.1:9898",
    as_json: Annotated[bool, typer.Option("--json", help="Print the daemon's JSON document, for scripts.")] = False,
    ready: Annotated[
        bool,
        typer.Option(
            "--ready", help="Only check whether the daemon is ready (exit code 69 if not), and show what has stopped."
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="DURATION",
            parser=a_duration,
            help="With --ready: wait so long for it, for example 30s or 2m. One line says how it ended.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show it anew every second, until Ctrl-C; also over a restart of the daemon."),
    ] = False,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck",
            help=(
                "Show the events that a sink has failed and that wait to be sent again: position, sink, tries, "
                "next try, last error."
            ),
        ),
    ] = False,
    admin_token_file: TokenOption = None,
) -> None:
    """Show a running daemon: its connectors, rates, breakers and backlogs, and parts that have stopped."""
    if wait is not None and not ready:
        raise end("--wait goes with --ready", EX_USAGE)
    if watch and (ready or as_json or stuck):
        raise end("--watch excludes --ready, --json and --stuck", EX_USAGE)
    if stuck and (ready or as_json):
        raise end("--stuck excludes --ready and --json; the document of --json has what --stuck shows", EX_USAGE)
    client = AdminClient(admin, admin_token_file)
    with answered():
        if ready:
            _ask_ready(client, wait or 0.0)
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


def _ask_ready(client: AdminClient, seconds: float) -> None:
    """Waits so long at the most. A daemon that is not there yet may come."""
    ends = time.monotonic() + seconds
    while True:
        try:
            typer.echo("\n".join(_readiness(client)))
            return
        except NoAnswer as error:
            left = ends - time.monotonic()
            if left <= 0:
                waited = f"after {duration(seconds)}: " if seconds else ""
                raise NoAnswer(f"{waited}{error}") from None
        time.sleep(min(left, ASKED_EVERY))


def _readiness(client: AdminClient) -> list[str]:
    """Raises NoAnswer if it is not ready."""
    code, body = client.get("/readyz")
    lines = [printable(line) for line in body.decode(errors="replace").splitlines()]
    if code == 200 and lines[:1] == ["ok"]:
        return ["ready", *lines[1:]]
    if code == 200:
        raise NoAnswer(f"{STRANGER}: {lines[0] if lines else 'nothing'}")
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
    from walflow.admin.document import Status

    return understood(body, Status)


def report(known: "Status") -> list[RenderableType]:
    """The daemon in a line, a table for each flow with its totals, and a line for each thing that stops something."""
    lines: list[RenderableType] = [head(known), *map(_wait, known.waits), *map(_standstill, known.standstills)]
    for flow in known.flows:
        rows = rows_of(flow, pipelines=True)
        lines.append(table_of([*rows, total_of(rows)], f"flow {printable(flow.name)}"))
        lines += [line for connector in flow.connectors for line in troubles(connector, flow, known.state)]
        lines += [_kept(pipeline.name, pipeline.keeps) for pipeline in flow.pipelines if pipeline.keeps]
    return lines


def head(known: "Status") -> Text:
    state = "ready" if known.ready else "stopping" if known.state == "stopping" else "not ready"
    return Text.assemble(
        f"walflow {known.version}, pid {known.pid}, up {duration(known.uptime_seconds)}: ",
        (state, "green" if known.ready else "bold red"),
        "" if known.reload is None else _reloaded(known.reload),
    )


def _reloaded(last: "ReloadStatus") -> Text:
    ago = f"{duration(max(0.0, time.time() - last.asked))} ago, by {printable(last.by)}"
    if last.phase == "serving":
        return Text(f"; reloaded {ago}, flows {printable(last.flows)}")
    return Text(f"; reload {printable(last.phase)}, asked for {ago}", "" if last.phase == "checked" else "yellow")


def _wait(found: "WaitStatus") -> Text:
    text = f"{printable(found.who)} has waited {duration(found.seconds)} for {printable(found.call)}"
    return Text(text, "bold yellow")


def _standstill(found: "StandstillStatus") -> Text:
    held = "".join(f"; {printable(line)}" for line in found.held_by)
    text = f"{printable(found.source)} has stood still for {duration(found.seconds)}: {printable(found.reason)}{held}"
    return Text(text, "bold yellow")


def troubles(
    connector: "ConnectorStatus", flow: "FlowStatus", daemon: Literal["running", "stopping"] = "running"
) -> list[Text]:
    """`daemon`: while it stops, no source may read, and that is no trouble."""
    lines: list[Text] = []
    name = printable(connector.name)
    known = connector.log or {}
    if connector.log and daemon == "running":
        lines += _full_line(connector, connector.log)
    if (lead := known.get("clock_lead_seconds", 0)) >= LEAD:
        lines.append(Text(f"{name} stamps events {duration(lead)} ahead of the clock, which was set back", "yellow"))
    if connector.reason:
        lines.append(Text(f"{name} is {connector.state}: {printable(connector.reason)}", "red"))
    fails = _failure_line(connector, flow)
    if connector.breaker is not None and not _same(connector):
        text = f": {printable(connector.breaker.text)}" if connector.breaker.text else ""
        lines.append(Text(f"{name} stops {_stopped(connector, flow)}, {connector.breaker.reason}{text}", "yellow"))
    lines += fails
    if kept := known.get("history_bytes", 0):
        back = duration(known.get("history_seconds", 0))
        lines.append(Text(f"{name} keeps {size(kept)} of what is acked, {back} back", "dim"))
    lines += [_letters_line(name, one) for one in connector.letters]
    lines += [_consumer_line(name, one) for one in connector.consumers]
    if connector.requests is not None:
        lines.append(_requests_line(connector, connector.requests))
    for one in connector.frontiers:
        text = f"{name} has the events of {printable(one.log)} up to position {one.position:,}"
        lines.append(Text(f"{text}, and lacks {one.lag:,} later ones" if one.lag else text, "dim"))
    told = {f"{flow.name}::{one.name}" for one in flow.connectors if one.failure is not None and one.failure.waiting}
    if any(part.sink not in told for part in connector.failed):
        lines.append(_failed_line(connector))
    lines += [
        Text(f"{name} may not read: {_shut(shut, flow)}", "yellow") for shut in connector.gate if shut.by != DRAIN
    ]
    lines += [
        Text(
            f"{name} does not send to {printable(lane.name)}, which lacks {_lag(lane)}: {_shut(shut, flow)}",
            "yellow",
        )
        for lane in connector.lanes
        for shut in lane.gate
        if shut.by != DRAIN
    ]
    return lines


def _letters_line(log: str, letters: "LettersStatus") -> Text:
    sink, going = printable(letters.sink), f"; {letters.going:,} went to it again" if letters.going else ""
    return Text(f"{log} keeps {letters.events:,} events that {sink} has rejected{going}: walflow letters", "yellow")


def _consumer_line(log: str, consumer: "ConsumerStatus") -> Text:
    lacks = f"lacks {consumer.lag:,} from {consumer.position:,} on" if consumer.lag else "has all"
    away = f", and has not been connected for {duration(consumer.away)}" if consumer.away else ""
    return Text(f"consumer {printable(consumer.name)} of {log} {lacks}{away}", "yellow" if away else "dim")


def _full_line(connector: "ConnectorStatus", log: "dict[str, Number]") -> list[Text]:
    if log.get("disk_full"):
        return []  # the sink half says so, and what to do
    full_in = 0 if log.get("full") else log.get("full_in_seconds")
    if full_in is None or full_in >= SOON:
        return []
    gates = [connector.gate, *(lane.gate for lane in connector.lanes)]
    told = [f"{shut.by} stops it" for gate in gates for shut in gate if shut.by not in ("window", DRAIN)]
    if connector.lanes:
        told += [f"{lane.name} lacks {_lag(lane)}" for lane in connector.lanes if lane.events]
    elif connector.holders:
        lacks = "lacks" if len(connector.holders) == 1 else "lack"
        told.insert(0, f"{' and '.join(connector.holders)} {lacks} {_lag_of(log)}")
    when = f"will be full in {duration(full_in)} at this rate" if full_in else "is full"
    return [Text("; ".join([f"{printable(connector.name)} {when}", *map(printable, told)]), "yellow")]


def _same(connector: "ConnectorStatus") -> bool:
    """The breaker says what the line of its failure says."""
    failure, breaker = connector.failure, connector.breaker
    return bool(
        failure and failure.row and breaker and breaker.reason == "triggered" and failure.cause in breaker.text
    )


def _shut(shut: "Shut", flow: "FlowStatus") -> str:
    """The reason stands in the line of the sink, if it has one."""
    told = any(shut.by == f"{flow.name}::{one.name}" and _same(one) for one in flow.connectors)
    return f"{printable(shut.by)} stops it" if told else f"{printable(shut.by)}: {printable(shut.reason)}"


def _failure_line(connector: "ConnectorStatus", flow: "FlowStatus") -> list[Text]:
    """Of a sink that fails now, or has failed events that wait, or that failed within the last minute."""
    failure = connector.failure
    if failure is None or not (failure.row or failure.waiting or failure.seconds):
        return []
    since = f" for {duration(failure.seconds)}" if failure.seconds >= 1 else ""
    last = f", last at position {failure.position:,}" if failure.position else ""
    if failure.row:
        stops = f"stops {_stopped(connector, flow)}, " if _same(connector) else ""
        row = " in a row" if failure.row > 1 else ""
        told = [f"{stops}has failed {_times(failure.row)}{row}{since}{last}: {printable(failure.cause)}"]
    elif failure.waiting:
        events = f"{failure.waiting:,} event{'' if failure.waiting == 1 else 's'}"
        first = f", the oldest at position {failure.first:,} {_times(failure.tries)}" if failure.first else ""
        told = [f"takes events, and has failed {events}{since}{first}: {printable(failure.cause)}"]
    else:
        at = f" at position {failure.position:,}" if failure.position else ""
        told = [f"failed {duration(failure.ago)} ago{at}, and has taken events since: {printable(failure.cause)}"]
    if failure.advice:
        told.append(printable(failure.advice))
    if failure.waiting:
        told.append("`walflow status --stuck` shows them")
    return [Text(f"{printable(connector.name)} {'; '.join(told)}", "red" if failure.row else "yellow")]


def _requests_line(connector: "ConnectorStatus", requests: "RequestStatus") -> Text:
    text = f"{requests.per_second:,.1f} requests/s, median {_brief(requests.median)}, p99 {_brief(requests.p99)}"
    return Text(f"{printable(connector.name)}: {text}", "dim")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _brief(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def stuck_events(known: "Status") -> list[RenderableType]:
    """A table for each connector with events that failed, and what to do; or a line."""
    lines: list[RenderableType] = []
    for flow in known.flows:
        for connector in flow.connectors:
            if not connector.failed:
                continue
            name = printable(f"{flow.name}::{connector.name}")
            waiting = "1 event has" if connector.failed_events == 1 else f"{connector.failed_events:,} events have"
            table = Table(title=f"{name}: {waiting} failed", title_justify="left")
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
            "An event leaves by err after max_attempts of its source; of a log, "
            "`walflow wal skip` takes one out by hand."
        )
    )
    return lines


def _failed_line(connector: "ConnectorStatus") -> Text:
    first = connector.failed[0]
    more = f"{connector.failed_events:,} event{' has' if connector.failed_events == 1 else 's have'} failed"
    told = (
        f"the oldest at position {first.position:,}, {first.tries:,} times at {printable(first.sink)}: "
        f"{printable(first.cause)}"
    )
    return Text(f"{printable(connector.name)}: {more}, {told}; walflow status --stuck shows them", "yellow")


def _stopped(sink: "ConnectorStatus", flow: "FlowStatus") -> str:
    """What a sink whose breaker is open stops: of a log with several lanes its own alone."""
    own = f"{flow.name}::{sink.name}"
    logs = [one.name for one in flow.connectors for lane in one.lanes if any(shut.by == own for shut in lane.gate)]
    others = any(shut.by == own for one in flow.connectors for shut in one.gate)
    lanes = ", ".join(f"its lane of {printable(name)}" for name in dict.fromkeys(logs))
    return f"its sources and {lanes}" if lanes and others else lanes or "its sources"


def _lag_of(log: "dict[str, Number]") -> str:
    """How far a log with one lane is behind, in words."""
    from walflow.admin.document import LaneStatus

    lane = LaneStatus("", int(log.get("backlog_events", 0)), int(log.get("backlog_bytes", 0)), [])
    lane.seconds = int(log.get("oldest_seconds", 0))
    return _lag(lane)


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
