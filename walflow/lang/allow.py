"""`# check: allow NAME` in a flow file: one warning is known and wanted, at the line of the comment, or at the next
line of code if the comment has a line of its own."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from walflow.diagnostics import Diagnostic, Source, Span, did_you_mean, error, one_of
from walflow.lang.scan import comments

WORD: Final = "check: allow"
_COMMENT: Final = re.compile(r"#\s*check:\s*allow\b")
_NAME: Final = re.compile(r"[^\s,]+")


@dataclass(eq=False)
class Allowance:
    """`line`: of the code that it is about."""

    name: str
    at: Span
    line: int
    used: bool = False


@dataclass(frozen=True)
class Allowances:
    of: Sequence[Allowance] = field(default_factory=list[Allowance])

    def permits(self, name: str, *places: Span | None) -> bool:
        """Whether a warning of this name is wanted at one of these places.
        From now on the comment counts as needed."""
        lines = {(place.source, place.source.position(place.start).line) for place in places if place is not None}
        found = [one for one in self.of if one.name == name and (one.at.source, one.line) in lines]
        for one in found:
            one.used = True
        return bool(found)

    def rest(self, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Without the warnings that are wanted."""
        return [one for one in found if one.severity == "error" or not self.permits(one.name, one.span)]

    def unknown(self, known: Collection[str]) -> Iterator[Diagnostic]:
        for one in self.of:
            if one.name not in known:
                hint = did_you_mean(one.name, known) or f"there is {one_of(sorted(known))}"
                yield error(f"no warning has the name `{one.name}`", one.at, hint)

    def unneeded(self) -> Iterator[str]:
        for one in self.of:
            if not one.used:
                yield f"{one.at}: `# {WORD} {one.name}` is not needed: there is no such warning at line {one.line}"


def allowances(sources: Sequence[Source]) -> Allowances:
    return Allowances([one for source in sources for one in _in(source)])


def _in(source: Source) -> Iterator[Allowance]:
    if _COMMENT.search(source.text) is None:  # the file need not be scanned again
        return
    for comment in comments(source):
        found = _COMMENT.match(source.text, comment.start, comment.end)
        if found is None:
            continue
        for name in _NAME.finditer(source.text, found.end(), comment.end):
            yield Allowance(name.group(), Span(source, *name.span()), _line_of(comment))


def _line_of(comment: Span) -> int:
    source = comment.source
    number = source.position(comment.start).line
    if not source.line(number).lstrip().startswith("#"):
        return number
    last = source.position(len(source.text)).line
    while number < last and source.line(number).strip()[:1] in ("", "#"):
        number += 1
    return number
