"""`walflow letters list`, `show` and `export`: they read the directory, beside the daemon or without one."""

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from walflow.admin.text import printable
from walflow.cli.letters.chosen import Numbers, Reason, Sink, choice, found
from walflow.cli.wal.terminal import AsJson, At, end, stdout, tell, told
from walflow.exit_codes import EX_FINDINGS

if TYPE_CHECKING:
    from walflow.delivery.letters.outside import LetterGap, SeenLetter


def list_(path: At, sink: Sink = None, reason: Reason = None, as_json: AsJson = False) -> None:
    """Count the letters of a log, by sink and by reason.

    Each letter is an event that the sink has rejected, with its reason. `walflow letters export` prints the events,
    and `walflow letters retry` sends them again.

    Exit codes: 0; 1 some cannot be read; 74 there is no log.
    """
    from walflow.delivery.letters.outside import LetterGap

    groups: dict[tuple[str, str], _Group] = {}
    gaps: list[LetterGap] = []
    with told():
        for one in found(str(path), choice(sink, reason, None)):
            if isinstance(one, LetterGap):
                gaps.append(one)
            else:
                groups.setdefault((one.sink, one.letter.reason), _Group(one)).add(one)
        if as_json:
            typer.echo(json.dumps([group.known() for group in groups.values()], indent=2))
        elif not groups:
            typer.echo("no letters")
        for group in () if as_json else sorted(groups.values(), key=lambda one: -one.count):
            typer.echo(printable(group.line()))
    _end_with(gaps)


def show(path: At, numbers: Numbers = None, sink: Sink = None, reason: Reason = None) -> None:
    """Print letters as text: the number, when it was rejected, how often, its position in the log, the reason, and
    the event as the sink had got it.

    Exit codes: 0; 1 there is none, or some cannot be read; 74 there is no log.
    """
    from walflow.cli.wal.events import compact, time_of
    from walflow.delivery.letters.outside import LetterGap

    gaps: list[LetterGap] = []
    shown = 0
    with told():
        for one in found(str(path), choice(sink, reason, numbers)):
            if isinstance(one, LetterGap):
                gaps.append(one)
                continue
            shown += 1
            known = _document(one)
            times = "once" if one.letter.tries == 1 else f"{one.letter.tries} times"
            goes = ", on its way to the sink again" if one.goes else ""
            place = f"position {one.position}" if one.position is not None else "of several events"
            when = time_of(one.letter.rejected_ns)
            typer.echo(printable(f"{one.sink} {one.number}: {place}, rejected {times}, last {when}{goes}"))
            typer.echo(printable(f"  {one.letter.reason}"))
            said = compact(known["event"]) if "event" in known else repr(one.payload)
            typer.echo(printable(f"  {said}"))
            if one.meta:
                typer.echo(printable(f"  $ {compact(one.meta)}"))
    _end_with(gaps)
    if not shown:
        raise end("there is no such letter", EX_FINDINGS)


def export(path: At, numbers: Numbers = None, sink: Sink = None, reason: Reason = None) -> None:
    """Print letters as lines of JSON: sink, number, reason, times, position, metadata, and the event.

    Exit codes: 0; 1 some cannot be read; 74 there is no log.
    """
    from walflow.cli.wal.events import compact
    from walflow.delivery.letters.outside import LetterGap

    gaps: list[LetterGap] = []
    with told():
        out = stdout()
        for one in found(str(path), choice(sink, reason, numbers)):
            if isinstance(one, LetterGap):
                gaps.append(one)
            else:
                out.write(compact(_document(one)).encode(errors="backslashreplace") + b"\n")
        out.flush()
    _end_with(gaps)


class _Group:
    """The letters of one sink and one reason."""

    def __init__(self, first: "SeenLetter") -> None:
        self.count = self.going = 0
        self._sink, self._reason = first.sink, first.letter.reason
        self._first = self._last = first

    def add(self, letter: "SeenLetter") -> None:
        self.count += 1
        self.going += letter.goes
        self._last = letter

    def known(self) -> Mapping[str, object]:
        return {
            "sink": self._sink,
            "reason": self._reason,
            "letters": self.count,
            "going": self.going,
            "first": {"number": self._first.number, "rejected_ns": self._first.letter.rejected_ns},
            "last": {"number": self._last.number, "rejected_ns": self._last.letter.rejected_ns},
        }

    def line(self) -> str:
        from walflow.cli.wal.events import time_of

        letters = "1 letter" if self.count == 1 else f"{self.count:,} letters"
        times = " to ".join(dict.fromkeys(time_of(one.letter.rejected_ns) for one in (self._first, self._last)))
        going = f", {self.going:,} on their way again" if self.going else ""
        return f"{self._sink}: {letters}{going}, {times}: {self._reason}"


def _document(one: "SeenLetter") -> dict[str, object]:
    letter = one.letter
    known: dict[str, object] = {
        "sink": one.sink,
        "number": one.number,
        "reason": letter.reason,
        "tries": letter.tries,
        "rejected_ns": letter.rejected_ns,
        "ingest_ns": letter.ingest_ns,
        "going": one.goes,
        "log": letter.log,
        "position": one.position,
        "codec": one.codec.name,
        "meta": one.meta,
    }
    from walflow.errors import WalflowError

    try:
        return {**known, "event": one.value()}
    except (WalflowError, ValueError) as error:
        return {**known, "error": str(error), "payload_base64": base64.b64encode(one.payload).decode()}


def _end_with(gaps: "list[LetterGap]") -> None:
    for gap in gaps:
        tell(f"letters {gap.first} to {gap.last} of {gap.sink}: {gap.reason}")
    if gaps:
        raise typer.Exit(EX_FINDINGS)
