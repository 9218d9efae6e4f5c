"""Receipts: they tell the source of a block what became of each of its events.

A receipt settles once, when every copy of the block has an outcome. If all copies were acked, that is all that is
ever asked, and nothing else is kept. If one failed, `outcome()` says by event who failed it and who has it: a source
sends again only what failed, and with it what is known of who has it (`Delivered`), so that a receiver never gets an
event twice within one run.

A copy may be cut into parts (`split`), or some of its events may go on without the others, or as several (`pick`). A
part has a receipt of its own, whose events have numbers of their own. `Numbering` translates between both. Sets of
events are integers, one bit an event: they are made when a receipt has failed, and not before.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import pairwise
from typing import Final, NamedTuple

Settled = Callable[["Receipt"], None]
Bits = int  # a set of events: bit n is event n of the block


def all_of(count: int) -> Bits:
    return (1 << count) - 1


def runs(bits: Bits, count: int) -> Iterator[tuple[int, int, bool]]:
    """The neighbours that are alike: from, to (exclusive), and whether they are in the set."""
    at = 0
    while at < count:
        rest = bits >> at
        inside = bool(rest & 1)
        other = ~rest if inside else rest
        size = (other & -other).bit_length() - 1 if other else count
        stop = min(count, at + size)
        yield at, stop, inside
        at = stop


def segments(sets: Sequence[Bits], count: int) -> Iterator[tuple[int, int, tuple[bool, ...]]]:
    """`runs` for several sets: the neighbours that are alike in each of them."""
    bounds = {0, count}
    for bits in sets:
        bounds |= {start for start, _, _ in runs(bits, count)}
    places = sorted(bounds)
    for start, stop in pairwise(places):
        yield start, stop, tuple(bool(bits >> start & 1) for bits in sets)


class Delivered(NamedTuple):
    """What is known of events that are sent again, and of no others. `has`: which of them a receiver has, by its
    name. `refused`: which of them a sink has rejected, and why; their error records have not been acked
    everywhere."""

    has: Mapping[str, Bits]
    refused: Mapping[str, Mapping[int, str]]

    def __bool__(self) -> bool:
        return bool(self.has or self.refused)

    def between(self, start: int, stop: int) -> "Delivered | None":
        """What of the events `start` to `stop` was delivered, numbered anew."""
        return Numbering(start).down(self, stop - start)


AGAIN: Final = Delivered({}, {})  # of events that are sent again, and that no receiver has


def refused_by(refused: Mapping[str, Mapping[int, str]], way: str = "") -> Bits:
    """The events that a sink behind that way (as `Numbering` has it) has rejected."""
    found = 0
    for name, reasons in refused.items():
        if name.endswith(way):
            for number in reasons:
                found |= 1 << number
    return found


class Outcome(NamedTuple):
    """What became of the events of a settled receipt. `failed`: those that a receiver lacks. `by`: which a receiver
    failed, by its name (None: not known whose copy was lost). `has`: which it has acked, now or before.
    `refused`: as in `Delivered`."""

    failed: Bits
    by: Mapping[str | None, Bits]
    has: Mapping[str, Bits]
    refused: Mapping[str, Mapping[int, str]]

    def between(self, start: int, stop: int) -> Delivered | None:
        return Delivered(self.has, self.refused).between(start, stop)

    def failing(self, start: int, stop: int) -> set[str]:
        """The sinks, without the way that leads to them, that failed one of these events."""
        return named(self.failed_by(start, stop))

    def failed_by(self, start: int, stop: int) -> frozenset[str]:
        """The same, with the ways."""
        some = all_of(stop - start) << start
        return frozenset(name for name, bits in self.by.items() if name is not None and bits & some)


def sink_of(name: str) -> str:
    """A receiver's name without the marks of the way to it."""
    return name.partition(" ")[0]


class Numbering:
    """How the events of a part are counted in its whole: those of `numbers`, or those from `start` on. `only`: no
    others.

    `tag`: what the names of the part's receivers get in the whole, because the same sink may be reached by another
    way too. `repeats`: an event of the whole may be several events of the part; these are told apart by their order.
    `name`: who has the event in the whole once the part has all of it. `reasons`: the part are the error records of
    events that `name` has rejected. `way`: what the names of sinks that have rejected an event get in the whole,
    because the event could have taken another way, and must not now."""

    __slots__ = ("name", "numbers", "only", "reasons", "repeats", "start", "tag", "way")

    def __init__(
        self,
        start: int = 0,
        numbers: Sequence[int] | None = None,
        *,
        only: Bits | None = None,
        tag: str = "",
        repeats: bool = False,
        name: str | None = None,
        reasons: Sequence[str] | None = None,
        way: str = "",
    ) -> None:
        self.start = start
        self.numbers = numbers
        self.only = only
        self.tag = tag
        self.repeats = repeats
        self.name = name
        self.reasons = reasons
        self.way = way

    def up(self, bits: Bits, count: int) -> Bits:
        """Which of the whole's `count` events these are."""
        if self.numbers is not None:
            found = 0
            for number in members(bits):
                found |= 1 << self.numbers[number]
            return found
        found = (bits << self.start if self.start >= 0 else bits >> -self.start) & all_of(count)
        return found if self.only is None else found & self.only

    def names_up(self, name: str, bits: Bits, count: int) -> Iterator[tuple[str, Bits]]:
        if not self.repeats or self.numbers is None:
            yield name + self.tag, self.up(bits, count)
            return
        of_ordinal: dict[int, Bits] = {}
        for at, ordinal in enumerate(_ordinals(self.numbers)):
            if bits >> at & 1:
                of_ordinal[ordinal] = of_ordinal.get(ordinal, 0) | 1 << self.numbers[at]
        for ordinal, found in of_ordinal.items():
            yield f"{name} #{ordinal}{self.tag}", found

    def down(self, known: Delivered | None, count: int) -> Delivered | None:
        """What is known of the part's `count` events, of what is known of the whole."""
        if known is None:
            return None
        has: dict[str, Bits] = {}
        for key, bits in known.has.items():
            name, found = self._name_down(key, bits, count)
            if found:
                has[name] = has.get(name, 0) | found
        refused: dict[str, dict[int, str]] = {}
        for key, reasons in known.refused.items():
            if not key.endswith(self.way):
                continue
            bits = sum(1 << number for number in reasons)
            name, found = self._name_down(key[: len(key) - len(self.way)], bits, count)
            if found:
                numbers = range(self.start, self.start + count) if self.numbers is None else self.numbers
                refused.setdefault(name, {}).update({at: reasons[numbers[at]] for at in members(found)})
        return Delivered(has, refused) if has or refused else AGAIN

    def _name_down(self, name: str, bits: Bits, count: int) -> tuple[str, Bits]:
        if not name.endswith(self.tag):
            return "", 0
        name = name[: len(name) - len(self.tag)]
        numbers = self.numbers
        if numbers is None:
            return name, (bits >> self.start if self.start >= 0 else bits << -self.start) & all_of(count)
        if not self.repeats:
            return name, sum(1 << at for at, number in enumerate(numbers) if bits >> number & 1)
        name, hash, ordinal = name.rpartition(" #")
        if not hash or not ordinal.isdecimal():
            return "", 0
        wanted = int(ordinal)
        found = 0
        for at, (number, nth) in enumerate(zip(numbers, _ordinals(numbers), strict=True)):
            if nth == wanted and bits >> number & 1:
                found |= 1 << at
        return name, found


WHOLE: Final = Numbering()
NONE: Final[frozenset[str]] = frozenset()


def members(bits: Bits) -> Iterator[int]:
    """The numbers of the events in the set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _ordinals(numbers: Sequence[int]) -> Iterator[int]:
    """The how-manieth of its event each one is."""
    seen: dict[int, int] = {}
    for number in numbers:
        ordinal = seen.get(number, 0)
        seen[number] = ordinal + 1
        yield ordinal


class Receipt:
    """Tells the origin of a block its outcome, once, when every copy of the block has one. It needs no event loop.

    A node that sends a block to n receivers first calls `fork(n - 1)`. `settled` is called exactly once, possibly
    inside the call that sent the block: guard against re-entry. Then `cause` is None for an ack, otherwise the first
    failure. `delivered`: of events that are sent again, who has them already. A receipt that is collected without an
    outcome fails its block and warns.
    """

    __slots__ = (
        "_acked",
        "_failed",
        "_link",
        "_outcome",
        "_parts",
        "cause",
        "count",
        "delivered",
        "pending",
        "ref",
        "settled",
    )

    def __init__(
        self,
        settled: Settled,
        count: int,
        ref: object = None,
        delivered: Delivered | None = None,
        link: Numbering = WHOLE,
    ) -> None:
        """`link`: of a part, for `settled` of its whole."""
        self.pending = 1
        self.count = count
        self.cause: BaseException | None = None
        self.settled = settled
        self.ref = ref
        self.delivered = delivered
        self._link = link
        self._acked: set[str] | None = None
        self._failed: list[tuple[str | None, Bits, BaseException]] | None = None
        self._parts: list[tuple[Receipt, Numbering]] | None = None
        self._outcome: Outcome | None = None

    def __repr__(self) -> str:
        state = f"{self.pending} pending" if self.pending else "failed" if self.cause else "acked"
        return f"<Receipt of {self.count}, {state}>"

    # for those who hold a copy

    def fork(self, more: int) -> None:
        self.pending += more

    def ack(self, sink: str | None = None) -> None:
        """This copy is delivered to the receiver of that name; None: there was none."""
        if sink is not None:
            if self._acked is None:
                self._acked = {sink}
            else:
                self._acked.add(sink)
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def fail(self, cause: BaseException, done: int = 0, sink: str | None = None) -> None:
        """The first `done` events are delivered. The others may succeed later."""
        if done >= self.count > 0:
            self.ack(sink)
            return
        lacks = all_of(self.count) ^ all_of(done)
        if self._failed is None:
            self._failed = [(sink, lacks, cause)]
        else:
            self._failed.append((sink, lacks, cause))
        self.cause = self.cause or cause
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def split(self, sizes: Sequence[int]) -> list["Receipt"]:
        """Receipts for the parts, in order, instead of the one copy that the caller holds. No parts, of a block
        without events: it is acked."""
        if not sizes:
            self.ack()
            return []
        self.pending += len(sizes) - 1
        parts: list[Receipt] = []
        start = 0
        for size in sizes:
            link = Numbering(start)
            known = None if self.delivered is None else link.down(self.delivered, size)
            parts.append(Receipt(self._part_settled, size, None, known, link))
            start += size
        return parts

    def pick(
        self,
        numbers: Sequence[int] | None,
        *,
        tag: str = "",
        repeats: bool = False,
        name: str | None = None,
        reasons: Sequence[str] | None = None,
        way: str = "",
    ) -> "Receipt":
        """A receipt for these events (None: all) instead of the one copy that the caller holds; the copy says nothing
        of the others. To keep others, `fork` first. The rest as `Numbering` has it."""
        link = Numbering(0, numbers, tag=tag, repeats=repeats, name=name, reasons=reasons, way=way)
        count = self.count if numbers is None else len(numbers)
        known = None if self.delivered is None else link.down(self.delivered, count)
        return Receipt(self._part_settled, count, None, known, link)

    def join(self, part: "Receipt", link: Numbering = WHOLE) -> None:
        """The outcome of the one copy that the caller holds is that of `part`, which is settled.
        Several receipts may join one."""
        self._add(part, link)
        if part.cause is not None and self.cause is None and link.up(part.outcome().failed, self.count):
            self.cause = part.cause
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def withdraw(self) -> None:
        """The block was not sent after all, or its run is over: nothing is settled."""
        self.pending = 0
        self.settled = _over

    # for the source

    @property
    def done(self) -> int:
        """The number of events at the front that are delivered everywhere."""
        if self.cause is None:
            return self.count
        failed = self.outcome().failed
        return (failed & -failed).bit_length() - 1 if failed else self.count

    @property
    def lacking(self) -> int:
        """The number of events that are not delivered everywhere."""
        return 0 if self.cause is None else self.outcome().failed.bit_count()

    def takers(self) -> AbstractSet[str]:
        """The names of all who have acked an event of it in this attempt."""
        if self._parts is None and self._failed is None:
            return self._acked or NONE
        found = set(self._acked or ())
        found |= {name for name, lacks, _ in self._failed or () if name is not None and lacks != all_of(self.count)}
        for part, link in self._parts or ():
            if link.name is not None and part.lacking < part.count:
                found.add(link.name)
            found |= part.takers()
        return found

    def causes(self) -> Iterator[BaseException]:
        """Of all who have failed an event of it."""
        for _, _, cause in self._failed or ():
            yield cause
        for part, _ in self._parts or ():
            yield from part.causes()

    def outcome(self) -> Outcome:
        """The outcome of each event. Call it once the receipt has settled."""
        if self._outcome is None:
            self._outcome = self._judged()
        return self._outcome

    def _judged(self) -> Outcome:
        count = self.count
        everything = all_of(count)
        acked: dict[str, Bits] = dict.fromkeys(self._acked or (), everything)
        by: dict[str | None, Bits] = {}
        refused: dict[str, dict[int, str]] = {}
        for name, bits, _ in self._failed or ():
            by[name] = by.get(name, 0) | bits
            if name is not None:
                acked[name] = acked.get(name, 0) | (everything ^ bits)
        for part, link in self._parts or ():
            one = part.outcome()
            lacks = link.up(one.failed, count)
            for name, bits in one.has.items():
                for whole_name, found in link.names_up(name, bits, count):
                    acked[whole_name] = acked.get(whole_name, 0) | found
            for name, bits in one.by.items():
                if name is None:
                    by[None] = by.get(None, 0) | link.up(bits, count)
                else:
                    for whole_name, found in link.names_up(name, bits, count):
                        by[whole_name] = by.get(whole_name, 0) | found
            if link.name is not None:
                all_there = link.up(all_of(part.count), count) & ~lacks
                acked[link.name] = acked.get(link.name, 0) | all_there
            if link.reasons is not None and link.name is not None:
                numbers = range(part.count) if link.numbers is None else link.numbers
                for at in members(one.failed):
                    refused.setdefault(link.name, {})[numbers[at]] = link.reasons[at]
            for name, reasons in one.refused.items():
                bits = sum(1 << at for at in reasons)
                for whole_name, found in link.names_up(name, bits, count):
                    told = refused.setdefault(whole_name + link.way, {})
                    for at in members(bits):
                        number = _number_of(link, at)
                        if 0 <= number < count and found >> number & 1:  # several receipts may share the part
                            told[number] = reasons[at]
        failed = 0
        for bits in by.values():
            failed |= bits
        if self.delivered is not None:
            for name, bits in self.delivered.has.items():
                acked[name] = acked.get(name, 0) | bits
        has = {name: bits & ~by.get(name, 0) for name, bits in acked.items()}
        return Outcome(failed, by, has, refused)

    # within

    def _part_settled(self, part: "Receipt") -> None:
        part.settled = _over  # it led back to this one: a circle is not collected
        self.join(part, part._link)

    def _add(self, part: "Receipt", link: Numbering) -> None:
        if self._parts is None:
            self._parts = [(part, link)]
        else:
            self._parts.append((part, link))

    def __del__(self) -> None:
        if self.pending > 0:
            self.pending = 1
            self.fail(LostReceipt(f"{self.count} events were dropped without an outcome"))
            self.settled = _over  # parts that are collected after it, in one circle, may cut it up once more
            warnings.warn(f"a receipt of {self.count} events was collected unsettled", ResourceWarning, stacklevel=2)


def _number_of(link: Numbering, at: int) -> int:
    return at + link.start if link.numbers is None else link.numbers[at]


def _over(receipt: Receipt) -> None: ...


class LostReceipt(Exception):
    """A bug: a node dropped a block without ack, fail or reject. The block is sent again."""


def named(names: Iterable[str]) -> set[str]:
    """The sinks of these names."""
    return {sink_of(name) for name in names}
