"""`walflow tap`: shows events of a running daemon as they pass a port."""

import base64
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, AdminOption, NoAnswer, TokenOption, answered, end, understood
from walflow.exit_codes import EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.tap.events import TapEventBytes
    from walflow.admin.tap.open_tap import TapCounts


def tap(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FLOW/NODE[/PORT]",
            help="A connector or a pipeline, with all its ports or with one. Without it: which there are.",
        ),
    ] = "",
    where: Annotated[
        str, typer.Option(metavar="EXPR", help="Only events for which this is true: 'event.level == \"error\"'.")
    ] = "",
    rate: Annotated[bool, typer.Option("--rate", help="Print events and bytes a second instead of events.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the bytes of each event as they are, and a newline.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="The most events a second that are shown. Others pass unseen.")
    ] = 100,
    count: Annotated[
        int, typer.Option(min=0, help="End after so many events, with --rate after so many lines. 0: never.")
    ] = 0,
    admin: AdminOption = "127.0.0.1:9898",
    admin_token_file: TokenOption = None,
) -> None:
    """Show live events at the ports of a running daemon, until Ctrl-C. The daemon must be started with --tap.

    Each event is one line of JSON: its port, when it was received, its position in a log, its metadata, the event. At
    an `err` port the event is a record of the reason (`error`), the place in the flow file (`at`) and the rejected
    event.

    What is shown is a sample. The flow does not wait for a tap, and a tap that cannot follow gets fewer events. At
    the end the number of events that were shown, and that passed, is printed on stderr.
    """
    if rate and raw:
        raise end("--rate excludes --raw", EX_USAGE)
    asked = {"at": place.strip("/"), "limit": "0" if rate else str(limit), "where": where, "raw": str(raw).lower()}
    client = AdminClient(admin, admin_token_file)
    shown = _Printed(count, raw=raw, rate=rate)
    with suppress(KeyboardInterrupt), answered(), client.follow(f"/tap?{urlencode(asked)}") as answer:
        typer.echo(f"walflow: watching {place}, until Ctrl-C", err=True)
        for line in answer:
            shown.take(line)
            if shown.done:
                break
        else:
            shown.end()
            raise NoAnswer(f"the daemon at {client.endpoint} has ended the tap")
    shown.end()


class _Printed:
    def __init__(self, count: int, *, raw: bool, rate: bool) -> None:
        self._count = count
        self._raw = raw
        self._rate = rate
        self._shown = 0
        self._passed = 0
        self._failed = 0
        self._plain = not sys.stdout.isatty()

    @property
    def done(self) -> bool:
        return 0 < self._count <= self._shown

    def take(self, line: bytes) -> None:
        from walflow.admin.tap.events import TapEventBytes
        from walflow.admin.tap.open_tap import TapCounts

        if line.startswith(b'{"port":'):
            self._event(line, understood(line, TapEventBytes))
        elif line.startswith(b'{"counts":'):
            self._counts(understood(line, dict[str, TapCounts])["counts"])

    def _event(self, line: bytes, event: "TapEventBytes") -> None:
        self._shown += 1
        if self._raw and event.bytes is not None:
            self._print(base64.b64decode(event.bytes) + b"\n")
        elif self._raw:
            typer.echo(f"walflow: not shown: {event.omitted}", err=True)
        else:
            self._print(line)

    def _print(self, line: bytes) -> None:
        if self._plain:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        else:
            typer.echo(printable(line.decode(errors="replace").rstrip("\n")))

    def _counts(self, counts: "TapCounts") -> None:
        self._passed += counts.events
        if counts.failed and not self._failed:
            typer.echo(f"walflow: --where fails for some events: {printable(counts.reason)}", err=True)
        self._failed += counts.failed
        if self._rate:
            self._shown += 1
            typer.echo(rates(counts))

    def end(self) -> None:
        if not self._rate:
            of = f" of {self._passed:,} that passed" if self._passed > self._shown else ""
            events = "event" if self._shown == 1 else "events"
            typer.echo(f"walflow: {self._shown:,} {events} shown{of}", err=True)


def rates(counts: "TapCounts") -> str:
    """One line of --rate."""
    events, size = counts.events / counts.seconds, counts.bytes / counts.seconds
    line = f"{events:,.0f} events/s  {size:,.0f} bytes/s"
    if counts.examined:
        share = counts.matched / counts.examined
        line += f"  {share:.1%} of {counts.examined:,} match, about {events * share:,.0f}/s"
    return line
