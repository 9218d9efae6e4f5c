"""A script through which letters go before they are sent again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from walflow.cli.filter import load_filter, printable_lines
from walflow.exit_codes import EX_CONFIG

if TYPE_CHECKING:
    from walflow.delivery.letters.outside import SeenLetter


class Mended(NamedTuple):
    """`event`: JSON; None: `why` it stays a letter. "": that was printed."""

    event: bytes | None
    why: str = ""


class Mender:
    """The nodes of a script, which one letter after the other passes. Its state goes on from one to the next. What it
    rejects is printed."""

    def __init__(self, file: Path, args: Sequence[str]) -> None:
        from walflow.codecs import JSON
        from walflow.diagnostics import render_all
        from walflow.filters import Complaints, Filter, Wires
        from walflow.framing import LINES, Incoming, Outgoing

        alone, diagnostics = load_filter(file, None, args)
        if diagnostics:
            _say(render_all(diagnostics))
        if alone is None:
            raise typer.Exit(EX_CONFIG)
        wires = Wires(JSON, Incoming((), LINES), JSON, Outgoing((), LINES))
        entry = "in" if "in" in alone.entries else next(iter(alone.entries))
        self._written: list[bytes] = []
        self._complaints = Complaints(alone.assembly, _say)
        self._filter = Filter(alone, wires, entry, ["out"], self._written.append, self._complaints, str(file))

    def mended(self, letter: "SeenLetter") -> Mended:
        from walflow.codecs import JSON
        from walflow.errors import WalflowError
        from walflow.framing import LINES

        try:
            event = JSON.encode(letter.value())
        except (WalflowError, ValueError) as error:
            return Mended(None, f"it has no JSON form: {error}")
        self._written.clear()
        before = self._complaints.count
        self._filter.feed(LINES.join([event]))
        found = LINES.payloads(b"".join(self._written))
        if self._complaints.count > before:
            return Mended(None)
        if len(found) != 1:
            return Mended(None, "the script drops it" if not found else f"the script makes {len(found)} events of it")
        return Mended(found[0])


def _say(text: str) -> None:
    typer.echo(printable_lines(text), err=True)
