"""`walflow reload`: the daemon's next process takes over, with the flow files as they are now."""

import getpass
import os
import signal
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, AdminOption, NoAnswer, TokenOption, answered, end, understood
from walflow.cli.status import a_duration, read
from walflow.exit_codes import EX_TEMPFAIL, EX_UNAVAILABLE

if TYPE_CHECKING:
    from walflow.runtime.handover.reload import Reload

ASK_EVERY: Final = 0.1  # seconds
PATIENCE: Final = 180.0  # seconds for all of it
SIGNALLED: Final = 10.0  # seconds for a signal to have an effect


def reload(
    admin: AdminOption = "127.0.0.1:9898",
    admin_token_file: TokenOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the files, and show what would change. Nothing does.")
    ] = False,
    lose: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLOW::NAME",
            help="A sink or a log that is not in the files any more: the events that wait for it may be lost. "
            "Repeatable.",
        ),
    ] = None,
    begin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLOW::NAME=PLACE",
            help="Where a sink begins that is new behind a log: `now` (with the next event), a position, or `oldest` "
            "(with the oldest event that the log still has: the default). Repeatable.",
        ),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=a_duration,
            help="How long the old process stays once the new one serves. If the new one ends in that time, the old "
            "one goes on. An hour at most. Default: 5s. The new one writes no checkpoint of a log meanwhile.",
        ),
    ] = None,
    max_errors: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="EVENTS",
            help="If more events than these fail or are rejected while the old process stays, the new one ends, and "
            "the old one goes on.",
        ),
    ] = None,
) -> None:
    """Have the running daemon hand over to a new process, with its flow files as they are now, and with the walflow
    that is installed now. No connection is refused, and clients stay connected.

    If the files have a mistake, or the new process does not come to serve, the daemon goes on as it is. The mistake
    is printed, and the exit code is that of `walflow check`."""
    import msgspec

    client = AdminClient(admin, admin_token_file)
    places = dict(_place(one) for one in begin or [])
    asked = {
        "by": _who(),
        "dry": dry_run or None,
        "lose": lose or None,
        "begin": places or None,
        "watch": watch,
        "errors": max_errors,
    }
    wanted = {name: value for name, value in asked.items() if value is not None}
    body = msgspec.json.encode(wanted)
    with answered():
        number = _begin(client, body) if len(wanted) > 1 or client.may_change else _signal(client)
        reload = _wait(client, number)
    for line in reload.lines:
        typer.echo(printable(line), err=reload.phase == "failed")
    if reload.phase == "failed":
        raise end("not reloaded: the daemon goes on as it was", reload.code or EX_UNAVAILABLE)
    if reload.phase == "checked":
        typer.echo("a reload would do this")
    else:
        typer.echo(f"reloaded: process {reload.pid} serves")


def _place(text: str) -> tuple[str, int | None]:
    """A sink, and the first position that it wants; None: the next one."""
    name, _, place = text.rpartition("=")
    if name and place in ("now", "oldest"):
        return name, None if place == "now" else 1
    if name and place.isascii() and place.isdigit() and int(place):
        return name, int(place)
    raise typer.BadParameter(f"{text}: write FLOW::NAME=now, FLOW::NAME=oldest or FLOW::NAME=POSITION")


def _begin(client: AdminClient, body: bytes) -> str:
    return _read(client.post("/reload", body)).number


def _signal(client: AdminClient) -> str:
    """To a daemon that cannot know who asks its admin interface. Who may send a signal may have it reloaded."""
    pid = read(client.ask("/status")).pid
    before = _last(client)
    try:
        os.kill(pid, signal.SIGUSR2)
    except OSError as error:
        raise end(f"process {pid} cannot be told: {error.strerror}", EX_UNAVAILABLE) from None
    deadline = time.monotonic() + SIGNALLED
    while time.monotonic() < deadline:
        time.sleep(ASK_EVERY)
        number = _last(client)
        if number != before:
            return number
    raise NoAnswer(f"process {pid} does not begin to reload; its log says why")


def _last(client: AdminClient) -> str:
    """The number of the last reload, or ""."""
    code, body = client.get("/reload")
    return _read(body).number if code == 200 else ""


def _wait(client: AdminClient, number: str) -> "Reload":
    """Raises NoAnswer if no process of the daemon answers for long."""
    deadline = time.monotonic() + PATIENCE
    problem = NoAnswer("the reload takes too long")
    while time.monotonic() < deadline:
        time.sleep(ASK_EVERY)
        try:
            found = _read(client.ask("/reload"))
        except NoAnswer as error:
            if error.refused:  # during a handover the address is listened on all the time
                raise
            problem = error
            continue
        if found.number != number:
            raise end(f"another reload is under way, of {found.by}", EX_TEMPFAIL)
        if found.over:
            return found
    raise problem


def _read(document: bytes) -> "Reload":
    from walflow.runtime.handover.reload import Reload

    return understood(document, Reload)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    return f"{user}, process {os.getpid()}"
