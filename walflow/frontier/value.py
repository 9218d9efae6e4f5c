"""What a receiver stores of a log."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import msgspec

from walflow.positions import Range, WrittenPositions

MOST_RANGES: Final = 256
MOST_BYTES: Final = 16 << 10  # of the whole value, as JSON
OLD_TERMS: Final = 32  # chunks that are acked, and known all the same


class Confirmed(NamedTuple):
    """The highest position that the receiver has confirmed, and the generation of its frontier."""

    position: int = 0
    generation: int = 1


class FrontierBatch(NamedTuple):
    """Positions `first` to `last` of one term, both included, that come with a commit. Those between them that are
    not in the rows came to nothing on the way. `settled`: all events of the log up to that position have an outcome.
    `acked_below`: what is below will not be sent again."""

    term: int
    first: int
    last: int
    settled: int = 0
    acked_below: int = 0


class Frontier(msgspec.Struct, frozen=True, omit_defaults=True):
    """`ranges`: by term, the positions that the receiver has. `highest`, `term`: of all positions that it ever had,
    the highest one.
    `forgotten`: up to this position the oldest terms are no more in `ranges`; all of it had an outcome. `epoch`,
    `token`: who writes.
    `beat`: grows whenever the writer shows that it lives. `moved_to`: the new name of the sink, which writes there.

    A log never sends what it has acked. A copy of it with an older cursor does, so what is acked is not forgotten at
    once: of OLD_TERMS chunks it is known."""

    epoch: int = 0
    token: str = ""
    beat: int = 0
    highest: int = 0
    term: int = 0
    forgotten: int = 0
    generation: int = 1
    moved_to: str = ""
    ranges: dict[int, list[Range]] = {}

    def has(self, term: int, first: int, last: int) -> Sequence[tuple[int, int, bool]]:
        """These positions in runs: first and last of each, and whether the receiver has it."""
        runs: list[tuple[int, int, bool]] = []
        at = first
        for run in WrittenPositions({"": self.ranges.get(term, ())}).runs("", first, last):
            runs.append((at, at + run.length - 1, run.known))
            at += run.length
        return runs

    def with_batch(self, batch: FrontierBatch) -> Self:
        """After a commit of these rows."""
        term = batch.term
        ranges = {**self.ranges, term: _added(self.ranges.get(term, ()), batch.first, batch.last)}
        for old, known in self.ranges.items():
            if len(known) > 1 or old == term:
                ranges[old] = _closed(ranges[old], batch.settled)
        rises = batch.last > self.highest
        grown = msgspec.structs.replace(
            self, highest=batch.last if rises else self.highest, term=term if rises else self.term, ranges=ranges
        )
        return grown if len(ranges) == len(self.ranges) else grown._without_oldest(batch.acked_below, OLD_TERMS)

    def lacks(self, confirmed: Confirmed) -> bool:
        """Whether it has not what it once had. A new generation begins with less."""
        return self.generation <= confirmed.generation and self.highest < confirmed.position

    def renewed(self) -> Self:
        """With a sign of life."""
        return msgspec.structs.replace(self, beat=self.beat + 1)

    def within_bounds(self, acked_below: int) -> Self | None:
        """With as many old terms as fit. None: too much is not acked yet;
        what would make it so large is held until gaps close."""
        if self._fits():
            return self
        least = self._without_oldest(acked_below, 0)
        return least if least._fits() else None

    def _fits(self) -> bool:
        return sum(map(len, self.ranges.values())) <= MOST_RANGES and len(self.encode()) <= MOST_BYTES

    def _without_oldest(self, acked_below: int, most: int) -> Self:
        old = sorted((ranges[-1][1], term) for term, ranges in self.ranges.items() if ranges[-1][1] < acked_below)
        gone = old[: max(0, len(old) - most)]
        if not gone:
            return self
        terms = {term for _, term in gone}
        ranges = {term: known for term, known in self.ranges.items() if term not in terms}
        return msgspec.structs.replace(self, ranges=ranges, forgotten=max(self.forgotten, gone[-1][0]))

    def known_in(self, spans: Mapping[int, Range]) -> Self:
        """The next generation, for a log that went back. `spans`: first and last position of each term that it has.
        Its next events are new. What it still has of the old ones stays known, and so does what only another copy of
        it has: a term stands for one event at each position."""
        has = [
            (min(last, high), term)
            for term, (low, high) in spans.items()
            for first, last in self.ranges.get(term, ())
            if first <= high and last >= low
        ]
        highest, term = max(has, default=(0, 0))
        return msgspec.structs.replace(self, generation=self.generation + 1, highest=highest, term=term, forgotten=0)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Self:
        """Raises msgspec.DecodeError."""
        return msgspec.json.decode(data, type=cls)


def _added(ranges: Sequence[Range], first: int, last: int) -> list[Range]:
    known = WrittenPositions({"": ranges})
    known.add("", first, last)
    return known.dump()[""]


def _closed(ranges: list[Range], settled: int) -> list[Range]:
    """Without the gaps whose events have another outcome."""
    at = bisect_right(ranges, settled, key=_first) - 1
    return ranges if at < 1 else [(ranges[0][0], ranges[at][1]), *ranges[at + 1 :]]


def _first(each: Range) -> int:
    return each[0]
