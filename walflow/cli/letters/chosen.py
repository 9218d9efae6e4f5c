"""Which letters a command is about."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from walflow.cli.wal.terminal import end
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from walflow.delivery.letters.outside import LetterGap, SeenLetter

Sink = Annotated[
    str | None, typer.Option("--sink", metavar="NAME", help="Only of this sink, by its name in the flow.")
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Only those whose reason has this text in it.")
]
Numbers = Annotated[
    list[str] | None,
    typer.Option(
        "--number", metavar="N or N-M", help="Only these, with --sink if several sinks have letters. Repeatable."
    ),
]


class Choice(NamedTuple):
    """`ranges`: of numbers, ascending; None: all."""

    sink: str | None
    reason: str | None
    ranges: Sequence[tuple[int, int]] | None = None

    def takes(self, letter: "SeenLetter") -> bool:
        if self.reason is not None and self.reason not in letter.letter.reason:
            return False
        return self.ranges is None or any(first <= letter.number <= last for first, last in self.ranges)


def choice(sink: str | None, reason: str | None, numbers: Sequence[str] | None) -> Choice:
    return Choice(sink, reason, sorted(map(_range, numbers)) if numbers else None)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise end(f"--number {text}: a number, or two of them as 12-40", EX_USAGE)
    return int(first), int(last or first)


def found(path: str, chosen: Choice) -> "Iterator[SeenLetter | LetterGap]":
    """By sink, then by number. What cannot be read comes too, unless another sink is wanted. Raises WalflowError."""
    from walflow.delivery.letters.outside import LetterGap, seen_letters

    for sink, directory in sorted(_sinks(path, chosen.sink).items()):
        for one in seen_letters(sink, directory):
            if isinstance(one, LetterGap) or chosen.takes(one):
                yield one


def directory(path: str, sink: str) -> str:
    return _sinks(path, sink)[sink]


def _sinks(path: str, wanted: str | None) -> dict[str, str]:
    import os

    from walflow.delivery.letters.outside import sinks_with_letters
    from walflow.errors import Unusable
    from walflow.wal.tools.inspect.view import NOT_THERE

    if not os.path.isdir(path):
        raise Unusable(f"{path}: {NOT_THERE}")
    known = dict(sinks_with_letters(path))
    if wanted is None:
        return known
    name = wanted.rpartition("::")[2]
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise end(f"no letters of a sink {wanted} are in {path}: there is {there}", EX_FINDINGS)
    return {name: known[name]}
