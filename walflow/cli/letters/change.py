"""`walflow letters retry` and `drop`: the daemon does it, which has the log. Letters that no daemon has are dropped
without one."""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress

from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, AdminOption, NoAnswer, TokenOption, answered, understood
from walflow.cli.flow_args import FlowArgs
from walflow.cli.letters.chosen import Choice, Numbers, Reason, Sink, choice, directory, found
from walflow.cli.wal.terminal import At, agreed, end, told
from walflow.exit_codes import EX_FINDINGS, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.letters import LettersOf
    from walflow.cli.letters.mend import Mender
    from walflow.delivery.letters.outside import SeenLetter

BATCH: Final = 500  # letters of a request
BATCH_BYTES: Final = 1 << 20  # of mended events
LOOK: Final = 0.1  # seconds until the daemon is asked again
SHOWN: Final = 3  # of what a script mends, with --dry-run

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def retry(
    path: At,
    numbers: Numbers = None,
    sink: Sink = None,
    reason: Reason = None,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script", metavar="FILE", help="A script (.tremor) or a query (.trickle) that mends each event first."
        ),
    ] = None,
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Also where an old event may replace a newer one: a table with a key and no version."
        ),
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until each has an outcome.")] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    admin: AdminOption = "127.0.0.1:9898",
    admin_token_file: TokenOption = None,
) -> None:
    """Send letters to their sink again, and to no other.

    The sink gets the event as it was when it rejected it, or as the script makes it; it does not pass the flow's
    pipelines again. What the script rejects or drops stays a letter. What the sink rejects is a letter again, with a
    new number. Where each event of the log is stored once, so is each letter.

    The daemon must run, and know that it is you: --admin unix:/path, or --admin-token-file.

    Exit codes: 0 all were delivered, or nothing is to be done; 1 some stay letters; 2 wrong options; 69 no daemon
    with this log answers; 74 there is no log; 75 all went, and the daemon ended or began anew before each had its
    outcome, so how many were delivered is not known.
    """
    from walflow.cli.letters.mend import Mender

    client = AdminClient(admin, admin_token_file)
    chosen = choice(sink, reason, numbers)
    mender = Mender(script, args) if script is not None else None
    with told(), answered():
        counts, upto = _counted(str(path), chosen)
        if not counts:
            typer.echo("no letters")
            return
        known = _known(client, str(path), counts)
        _check_overwrites(known, overwrite=overwrite)
        _say_what(counts, "to send again" if mender is None else f"to send again through {script}")
        if dry_run and mender is not None:
            _show_mended(str(path), chosen, mender)
        if not agreed(typer.echo, dry_run=dry_run, yes=yes):
            return
        stay = _send(client, str(path), chosen, upto, mender, sum(counts.values()))
        after = _outcome(client, str(path), known, wait=wait)
    if after is None:
        why = "the daemon ended or began anew meanwhile, so how many were delivered is not known"
        raise end(f"{why}; `walflow letters list` says what came back", EX_TEMPFAIL)
    delivered = sum(after[name].delivered - known[name].delivered for name in counts)
    rejected = sum(after[name].rejected - known[name].rejected for name in counts)
    going = sum(one.going for one in after.values())
    parts = {"delivered": delivered, "rejected again": rejected, "on the way": going, "not mended": stay}
    typer.echo(", ".join(f"{count:,} {what}" for what, count in parts.items() if count) or "none was sent")
    if rejected or stay:
        raise typer.Exit(EX_FINDINGS)


def drop(
    path: At,
    numbers: Numbers = None,
    sink: Sink = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    admin: AdminOption = "127.0.0.1:9898",
    admin_token_file: TokenOption = None,
) -> None:
    """Drop letters. `walflow letters export` keeps a copy of them.

    A daemon that has them must know that it is you: --admin unix:/path, or --admin-token-file. Letters that none has
    (none runs, or its flow does not have the sink any more) are dropped at once.

    Exit codes: 0; 69 no daemon with this log answers; 74 there is no log; 75 a daemon began to use them meanwhile.
    """
    from walflow.delivery.letters import ranges_of
    from walflow.delivery.letters.outside import drop_letters
    from walflow.wal.tools.inspect import holder

    client = AdminClient(admin, admin_token_file)
    chosen = choice(sink, reason, numbers)
    with told(), answered():
        counts, upto = _counted(str(path), chosen)
        if not counts:
            typer.echo("no letters")
            return
        free = {name for name in counts if not holder(directory(str(path), name))}
        _known(client, str(path), counts.keys() - free)
        _say_what(counts, "to drop")
        if not agreed(typer.echo, dry_run=dry_run, yes=yes):
            return
        count = 0
        for batch in _batches(str(path), chosen, upto, None):
            if batch.sink in free:
                count += drop_letters(directory(str(path), batch.sink), ranges_of(batch.numbers))
            else:
                count += _asked(client, str(path), batch, "drop")
    typer.echo(f"{count:,} dropped")


class _Batch(NamedTuple):
    """`stay`: letters that the script has not mended."""

    sink: str
    numbers: Sequence[int]
    mended: Mapping[int, bytes]
    stay: int = 0


def _counted(path: str, chosen: Choice) -> tuple[Counter[str], dict[str, int]]:
    """Letters by sink, and the highest number of each: what comes later was not asked about."""
    counts, upto = Counter[str](), dict[str, int]()
    for one in _letters(path, chosen):
        counts[one.sink] += 1
        upto[one.sink] = one.number
    return counts, upto


def _letters(path: str, chosen: Choice) -> "Iterator[SeenLetter]":
    from walflow.delivery.letters.outside import LetterGap

    for one in found(path, chosen):
        if not isinstance(one, LetterGap) and not one.goes:
            yield one


def _known(client: AdminClient, path: str, sinks: Collection[str]) -> "Mapping[str, LettersOf]":
    """What the daemon says of these sinks."""
    if not sinks:
        return {}
    known = _told(client, path, sinks)
    for sink in sinks:
        if sink not in known:
            what = f"the daemon at {client.endpoint} keeps no letters of {sink} in {path}"
            why = "it has another log, has not opened it yet, or its flow has no such sink now"
            raise end(f"{what}: {why}", EX_UNAVAILABLE)
    return known


def _told(client: AdminClient, path: str, sinks: Iterable[str]) -> "Mapping[str, LettersOf]":
    """Of those of these sinks whose letters the daemon has."""
    from walflow.admin.letters import LettersOf

    told = {one.path: one for one in understood(client.ask("/letters"), list[LettersOf])}
    places = {sink: os.path.realpath(directory(path, sink)) for sink in sinks}
    return {sink: told[place] for sink, place in places.items() if place in told}


def _check_overwrites(known: "Mapping[str, LettersOf]", *, overwrite: bool) -> None:
    refused = [sink for sink, one in known.items() if one.overwrites and not overwrite]
    if refused:
        what = f"{', '.join(refused)} stores by a key: an old event could replace a newer one"
        raise end(f"{what}; --overwrite sends all the same, --sink names another", EX_USAGE)


def _say_what(counts: Counter[str], what: str) -> None:
    for sink, count in counts.items():
        typer.echo(printable(f"{'1 letter' if count == 1 else f'{count:,} letters'} of {sink} {what}"))


def _show_mended(path: str, chosen: Choice, mender: "Mender") -> None:
    from walflow.cli.wal.events import compact

    mended, shown, stays = 0, 0, Counter[str]()
    for one in _letters(path, chosen):
        event, why = mender.mended(one)
        if event is None:
            stays[why] += 1
            continue
        mended += 1
        if shown < SHOWN:
            shown += 1
            typer.echo(printable(f"  {one.number}: {compact(one.value())}"))
            typer.echo(printable(f"  {' ' * len(str(one.number))}  {event.decode()}"))
    typer.echo(f"the script mends {mended:,}")
    _say_stays(stays)


def _say_stays(stays: Counter[str]) -> None:
    for why, count in stays.items():
        typer.echo(printable(f"{count:,} stay{'' if not why else f': {why}'}"), err=True)


def _send(
    client: AdminClient, path: str, chosen: Choice, upto: Mapping[str, int], mender: "Mender | None", total: int
) -> int:
    """How many stay because of the script."""
    console = Console(stderr=True)
    stay = 0
    with Progress(
        BarColumn(), MofNCompleteColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=total)
        for batch in _batches(path, chosen, upto, mender):
            stay += batch.stay
            if batch.numbers:
                _asked(client, path, batch, "retry")
            bar.advance(task, len(batch.numbers) + batch.stay)
    return stay


def _batches(path: str, chosen: Choice, upto: Mapping[str, int], mender: "Mender | None") -> Iterator[_Batch]:
    numbers: list[int] = []
    mended: dict[int, bytes] = {}
    stays = Counter[str]()
    sink, size, stay = "", 0, 0
    for one in _letters(path, chosen):
        if one.number > upto.get(one.sink, 0):
            continue
        if sink and (one.sink != sink or len(numbers) >= BATCH or size > BATCH_BYTES):
            yield _Batch(sink, numbers, mended, stay)
            numbers, mended, size, stay = [], {}, 0, 0
        sink = one.sink
        if mender is not None:
            event, why = mender.mended(one)
            if event is None:
                stays[why] += 1
                stay += 1
                continue
            mended[one.number] = event
            size += len(event)
        numbers.append(one.number)
    if sink:
        yield _Batch(sink, numbers, mended, stay)
    _say_stays(stays)


def _asked(client: AdminClient, path: str, batch: _Batch, do: str) -> int:
    """How many letters the daemon has done it with. It waits while the sink has enough to do."""
    import msgspec

    from walflow.admin.letters import LettersAnswer
    from walflow.delivery.letters import ranges_of
    from walflow.delivery.letters.box import BUSY

    body = msgspec.json.encode(
        {
            "path": os.path.realpath(directory(path, batch.sink)),
            "do": do,
            "ranges": ranges_of(batch.numbers),
            "mended": {str(number): msgspec.Raw(event) for number, event in batch.mended.items()},
        }
    )
    taken = 0
    while True:
        answer = understood(client.post("/letters", body), LettersAnswer)
        taken += answer.taken
        if answer.refusal == BUSY:
            time.sleep(LOOK)
        elif answer.refusal:
            raise end(f"{batch.sink}: {answer.refusal}", EX_FINDINGS)
        elif not answer.taken or taken >= len(batch.numbers):  # of large ones it takes some at a time
            return taken


def _outcome(
    client: AdminClient, path: str, before: "Mapping[str, LettersOf]", *, wait: bool
) -> "Mapping[str, LettersOf] | None":
    """`wait`: once each that went has an outcome; Ctrl-C: as it is then. None: as of `_same_run`."""
    try:
        while (now := _same_run(client, path, before)) and wait and any(one.going for one in now.values()):
            time.sleep(LOOK)
        return now
    except KeyboardInterrupt:
        return _same_run(client, path, before)


def _same_run(client: AdminClient, path: str, before: "Mapping[str, LettersOf]") -> "Mapping[str, LettersOf] | None":
    """What the daemon says now. None: another run of it has these letters, and counts from 0, or none has."""
    try:
        now = _told(client, path, before)
    except NoAnswer:
        return None
    return now if all(name in now and now[name].run == one.run for name, one in before.items()) else None
