"""`walflow wal repair`."""

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, agreed, end, progress, told
from walflow.errors import WalflowError
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from walflow.disk import Disk
    from walflow.wal import Gap, Log
    from walflow.wal.tools.repair import Hold, RepairStep

ROUNDS = 8  # what is put out of the way may have hidden something else


class Account:
    """The steps to do and the steps done: printed line by line, or as one document at the end."""

    def __init__(self, path: str, *, as_json: bool) -> None:
        self.as_json = as_json
        self._known: dict[str, object] = {"path": path, "opens": False}
        self._to_do: list[str] = []
        self._done: list[str] = []
        self._by_hand: list[str] = []
        self._start: list[str] = []

    def say(self, line: str) -> None:
        if not self.as_json:
            typer.echo(printable(line))

    def to_do(self, steps: "list[RepairStep]") -> None:
        for step in steps:
            (self._by_hand if step.do is None else self._to_do).append(step.what)
            self.say(f"to do: {step.what}" if step.do else f"for you to do: {step.what}")

    def done(self, step: "RepairStep") -> None:
        self._done.append(step.what)
        self.say(f"done: {step.what}")

    def start(self, lines: list[str]) -> None:
        self._start += lines
        for line in lines:
            self.say(f"the next start does the rest: {line}")

    def losses(self, lines: list[str]) -> None:
        self._to_do += lines
        for line in lines:
            self.say(f"to do: {line}")

    def lost(self, gap: "Gap") -> None:
        self._done.append(str(gap))
        self.say(f"done: {gap}")

    def would_open(self) -> None:
        self._known["opens"] = True
        self.say("nothing to do: the log opens")

    def opens(self, log: "Log") -> None:
        left = log.durable - log.low - log.acked.above
        self._known |= {"opens": True, "low": log.low, "durable": log.durable, "backlog_events": left}
        path = self._known["path"]
        self.say(f"the log opens: {path} acked to {log.low}, durable to {log.durable}, {left} events to deliver")

    def print(self) -> None:
        lists = {"to_do": self._to_do, "for_you_to_do": self._by_hand, "done": self._done, "start": self._start}
        if self.as_json:
            typer.echo(json.dumps({**self._known, **lists}, indent=2))


def repair(
    path: At,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep: Annotated[
        str,
        typer.Option(metavar="UUID", help="If the directory contains several logs: the UUID of the log that stays."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Repair a log, so that a daemon can open it. It first shows what it would do. What prevents the log from opening
    is moved to quarantine/.

    Stop the daemon first. Nothing is deleted: data that would be overwritten is copied to quarantine/. So is the rest
    of events that cannot be read, with a report that they are lost. --json needs --dry-run or --yes, because it
    cannot ask.

    Exit codes: 0 the log opens (with --dry-run: nothing needs to be done); 1 something needs to be done and was not;
    74 a person must do something first, which the lines name; 75 another process uses the log.
    """
    if as_json and not (dry_run or yes):
        raise end("--json needs --dry-run or --yes", EX_USAGE)
    account = Account(os.path.normpath(path), as_json=as_json)
    with told():
        try:
            done = mend(os.path.normpath(path), account, dry_run=dry_run, yes=yes, keep=keep)
        finally:
            account.print()
    if not done:
        raise typer.Exit(EX_FINDINGS)


def mend(
    path: str, account: Account, *, dry_run: bool, yes: bool, keep: str = "", disk: "Disk | None" = None
) -> bool:
    """The work of `repair`. False: something needs to be done and was not. Raises WalflowError."""
    from walflow.wal.tools.repair import Hold, obstacles

    for _ in range(ROUNDS):
        with Hold(path, disk) as hold:
            steps = obstacles(path, keep, disk)
            if not steps:
                break
            account.to_do(steps)
            if any(step.do is None for step in steps):
                raise WalflowError("nothing was changed: do what is said above, then run this again")
            if not agreed(account.say, dry_run=dry_run, yes=yes):
                return False
            _do(steps, hold, account)
    else:
        raise WalflowError(f"{path}: the files that were moved away come back: another program uses this directory")
    return _start(path, account, dry_run=dry_run, yes=yes, disk=disk)


def _do(steps: "list[RepairStep]", hold: "Hold", account: Account) -> None:
    for step in steps:
        hold.take(create=True)  # the first step may have been what makes that possible
        if step.do is not None:
            step.do()
            account.done(step)


def _start(path: str, account: Account, *, dry_run: bool, yes: bool, disk: "Disk | None") -> bool:
    """Opens the log as a daemon does: that finishes the repair, and proves it."""
    from walflow.wal import Log, LogOptions
    from walflow.wal.tools.inspect import backlog_bytes, check
    from walflow.wal.tools.repair import Hold, half_headers, overwritten, renewed, unreadable

    with Hold(path, disk) as hold:
        with progress("reading") as begin:
            view, findings = check(path, begin, disk)
        steps, lost = overwritten(view, disk) + half_headers(view, disk), unreadable(view, findings)
        last = renewed(view, disk)
        account.to_do(steps)
        account.start(view.to_do)
        account.losses(lost)
        account.to_do(last)
        if (steps or view.to_do or lost or last) and not agreed(account.say, dry_run=dry_run, yes=yes):
            return False
        if dry_run:
            account.would_open()
            return True
        _do(steps, hold, account)
    log = Log(LogOptions(path, gives_up=bool(view.directory.given_up)), disk)  # as was said, and agreed to
    try:
        if lost:
            _pass_over(log, account, backlog_bytes(view))
        if not last:
            account.opens(log)
    finally:
        log.close()
    if last:
        with Hold(path, disk) as hold:
            _do(last, hold, account)
        log = Log(LogOptions(path), disk)
        account.opens(log)
        log.close()
    return True


def _pass_over(log: "Log", account: Account, size: int) -> None:
    from walflow.wal.tools.repair import pass_over

    with progress("reporting") as begin:
        for gap in pass_over(log, begin(size)):
            account.lost(gap)
