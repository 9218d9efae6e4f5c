"""What is rejected, for a person: the reason, the place in the script with a caret, the event."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from walflow.compile.program import functions, walk
from walflow.diagnostics import Span, error, render
from walflow.plan.assembly import Assembly

SHOWN: Final = 10  # of a kind; the others are counted
LONGEST: Final = 400  # characters of an event that are shown


class ErrorEvent(msgspec.Struct):
    """What an `err` port gives for an event that was rejected."""

    error: str
    at: str | None = None
    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Complaints:
    """`write` takes lines for stderr."""

    def __init__(self, assembly: Assembly, write: Callable[[str], None]) -> None:
        self._assembly = assembly
        self._write = write
        self._spans: Mapping[str, Sequence[Span]] | None = None  # by where they begin, the longest first
        self._seen: Counter[str] = Counter()  # by the place that failed, or the reason

    @property
    def count(self) -> int:
        """Rejected events so far."""
        return self._seen.total()

    def of_event(self, payload: bytes) -> None:
        found = msgspec.json.decode(payload, type=ErrorEvent)
        event = None if isinstance(found.event, msgspec.UnsetType) else bytes(found.event).decode()
        hint = event and f"event: {_shortened(event)}"
        span = self._span(found.at, found.error)
        text = render(error(found.error, span, hint))
        self._tell(found.at or found.error, text if span or not found.at else f"{found.at}: {text}")

    def of_input(self, place: str, payload: bytes, reason: str) -> None:
        """`payload` is no event."""
        text = _shortened(payload.decode(errors="replace").strip())
        self._tell(reason, f"{place}: error: {reason}" + (f"\n      = input: {text}" if text else ""))

    def end(self) -> None:
        more = sum(count - SHOWN for count in self._seen.values() if count > SHOWN)
        if more:
            self._write(f"walflow: {self.count:,} events were rejected; {more:,} of them are not shown")

    def _tell(self, kind: str, text: str) -> None:
        self._seen[kind] += 1
        if self._seen[kind] <= SHOWN:
            self._write(text)

    def _span(self, at: str | None, reason: str) -> Span | None:
        """Of several that begin there: what the reason names, or else the whole."""
        if self._spans is None:
            self._spans = _spans(self._assembly)
        spans = self._spans.get(at, ()) if at is not None else ()
        named = [span for span in spans if f"`{span.text}`" in reason]
        return next(iter([*named, *spans]), None)


def _spans(assembly: Assembly) -> Mapping[str, Sequence[Span]]:
    found: dict[str, set[Span]] = defaultdict(set)
    for plan in assembly.pipelines:
        for region in plan.regions:
            rules = [rule for rules in region.places.values() for rule in rules]
            parts = [part for rule in rules for part in (rule.what, rule.where, rule.having) if part is not None]
            bodies = [*parts, *(script.body for script in region.scripts.values())]
            bodies += [function.body for function in functions(bodies) if function.body is not None]
            for term in (term for body in bodies for term in walk(body)):
                found[str(term.span)].add(term.span)
    return {at: sorted(spans, key=lambda span: -span.end) for at, spans in found.items()}


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
