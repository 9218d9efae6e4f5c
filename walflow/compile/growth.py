"""How many times as large as the event a value may be that a region makes of it, and how often it reads what it has
made: bounds, found when the region is compiled.

A script that names each part of the event a few times makes small values, and costs nothing more. Where a value grows
with the number of the event's parts (`for`, `recur`), or by doubling, the generated code weighs what it makes. It
does so too where a turn of a loop compares or hands to a function what does not belong to that turn: that is read
once for each.

The factor of a term: the size of its value is at most so many times that of the event, and a constant. A number has
the factor 0. What is beyond MOST counts as ENDLESS.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from walflow.compile.program import (
    ArrayOf,
    BinaryOf,
    CallOf,
    Change,
    Const,
    EmitOf,
    ForCaseOf,
    ForOf,
    FunctionOf,
    InvokeOf,
    LetOf,
    LocalTerm,
    MatchOf,
    MergeOf,
    PatchOf,
    PresentOf,
    ReadPath,
    RecordOf,
    RecurOf,
    ReturnOf,
    StepsOf,
    Term,
    UnaryOf,
    WholeTerm,
    ends,
    parts,
)
from walflow.compile.region import Region
from walflow_kernel.errors import CannotApply
from walflow_kernel.weight import MOST, weight_of

ENDLESS: Final = inf
LARGEST_CONSTANT: Final = 64 << 10  # bytes
SCALARS: Final = frozenset({"bool", "integer", "float", "number", "null"})  # what functions give

Sizes = dict[int | str, float]
"""The factors of locals, by their slots, and of `event`, `$`, `state`, `group` and `window`."""


def grows(region: Region) -> bool:
    """Whether a value may be more than MOST times as large as the event that came."""
    factors = {region.entry: 1.0}
    waiting = [region.entry]
    while waiting:
        place = waiting.pop()
        growth = _Growth()
        leaving = _leaving(region, place, factors[place], growth)
        if growth.largest > MOST:
            return True
        for way in region.onward(place):
            if region.has(way.to) and leaving > factors.get(way.to, 0):
                factors[way.to] = leaving  # it only rises, and ends at MOST
                waiting.append(way.to)
    return False


def _leaving(region: Region, place: str, came: float, growth: "_Growth") -> float:
    sizes: Sizes = {"event": came}
    if place in region.scripts:
        growth.of(region.scripts[place].body, dict(sizes))
        return max(growth.left, came)
    found = came
    for rule in region.places[place]:
        terms = [term for term in (rule.where, rule.having) if term is not None]
        for term in [*terms, *(rule.windows.event_terms if rule.windows is not None else ())]:
            growth.of(term, dict(sizes))
        if rule.what is not None:
            found = max(found, growth.of(rule.what, dict(sizes)))
    return max(found, growth.left)


class _Growth:
    """`largest`: of all values. `left`: of what `emit` or a function's end have left."""

    def __init__(self) -> None:
        self.largest = 0.0
        self.left = 0.0
        self._called: dict[tuple[FunctionOf, tuple[float, ...]], float] = {}

    def of(self, term: Term, sizes: Sizes) -> float:
        found = self._of(term, sizes)
        if found > MOST:
            found = ENDLESS
        if found > 0 and not isinstance(term, ReadPath | WholeTerm | LocalTerm):
            self.largest = max(self.largest, found)
        return found

    def _of(self, term: Term, sizes: Sizes) -> float:
        match term:
            case Const():
                return _of_constant(term.value)
            case WholeTerm():
                return sizes.get(term.root, sizes.get("", 1))
            case LocalTerm():
                return sizes.get(term.slot, sizes.get("", 1))
            case ReadPath():
                self._parts(term, sizes)
                return self.of(term.of, sizes)
            case ArrayOf() | RecordOf():
                return self._parts(term, sizes)
            case CallOf():
                return self._call(term, sizes)
            case UnaryOf() | PresentOf():
                self._parts(term, sizes)
                return 0
            case BinaryOf():
                given = [self.of(part, sizes) for part in parts(term)]
                if any(symbol in {"==", "!="} for symbol, _ in term.rest):
                    self._compare(given)
                return sum(given) if any(symbol == "+" for symbol, _ in term.rest) else 0
            case MergeOf():
                return self._parts(term, sizes)
            case PatchOf():
                return self._patch(self.of(term.of, sizes), term.changes, sizes)
            case MatchOf():
                return self._match(term, sizes)
            case ForOf():
                return self._for(term, sizes)
            case InvokeOf():
                return self._invoke(term.function, [self.of(one, sizes) for one in term.arguments])
            case _:
                return self._effect(term, sizes)

    def _compare(self, given: Sequence[float]) -> None:
        if min(given, default=0) == ENDLESS:
            self.largest = ENDLESS

    def _effect(self, term: Term, sizes: Sizes) -> float:
        match term:
            case StepsOf():
                found = 0.0
                for step in term.steps:
                    found = self.of(step, sizes)
                    if ends(step):
                        break
                return found
            case LetOf():
                return self._let(term, sizes)
            case EmitOf():
                value = sizes.get("event", 1) if term.value is None else self.of(term.value, sizes)
                self.left = max(self.left, value)
                return 0
            case ReturnOf():
                self.left = max(self.left, self.of(term.value, sizes))
                return 0
            case RecurOf():
                self._parts(term, sizes)
                return 0
            case _:
                return self._parts(term, sizes)

    def _parts(self, term: Term, sizes: Sizes) -> float:
        return sum(self.of(part, sizes) for part in parts(term))

    def _call(self, term: CallOf, sizes: Sizes) -> float:
        given = [self.of(argument.term, sizes) for argument in term.arguments]
        if ENDLESS in given:
            self.largest = ENDLESS
        if term.function.gives in SCALARS:
            return 0
        return ENDLESS if term.function.grows else sum(given)

    def _patch(self, found: float, changes: Sequence[Change], sizes: Sizes) -> float:
        for change in changes:
            if change.key is not None:
                self.of(change.key, sizes)
            value = 0 if change.value is None else self.of(change.value, sizes)
            found = 2 * found if change.word == "copy" else found + value
        return found

    def _match(self, term: MatchOf, sizes: Sizes) -> float:
        of = self.of(term.of, sizes)
        found = 0.0
        before = dict(sizes)
        for case in term.cases:
            within = dict(before)
            each = [self.of(one, within) for one in case.given]
            if each:
                self._compare([of, *each])
            given = sum(each)
            if case.bind is not None:
                within[case.bind.slot] = of + given
            if case.guard is not None:
                self.of(case.guard, within)
            found = max(found, self.of(case.body, within))
            _widen(sizes, within)
        return found

    def _for(self, term: ForOf, sizes: Sizes) -> float:
        """What a case says of the element alone goes with the size of all elements.
        All else may come once for each."""
        of = self.of(term.of, sizes)
        start = 0 if term.start is None else self.of(term.start, sizes)
        turn = max((self._turn(case, of, sizes) for case in term.cases), default=0)
        return start + of * max(turn, 1)

    def _turn(self, case: ForCaseOf, of: float, sizes: Sizes) -> float:
        within: Sizes = {"": ENDLESS, case.key.slot: 1, case.value.slot: 1}
        if case.guard is not None:
            self.of(case.guard, within)
        found = self.of(case.body, within)
        made = {slot: size * max(of, 1) for slot, size in within.items() if slot and size > 0}
        _widen(sizes, {slot: size for slot, size in made.items() if slot not in (case.key.slot, case.value.slot)})
        return found

    def _let(self, term: LetOf, sizes: Sizes) -> float:
        value = self.of(term.value, sizes)
        target = term.target.root if isinstance(term.target, WholeTerm) else term.target.slot
        before = self.of(term.target, sizes) if term.steps else 0
        sizes[target] = min(before + value, ENDLESS) if target != "state" else 1  # the state has a bound of its own
        if sizes[target] > MOST:
            self.largest = ENDLESS
        return value

    def _invoke(self, function: FunctionOf, given: Sequence[float]) -> float:
        assert function.body is not None
        if function.recurs:
            given = [ENDLESS] * len(given)
        known = self._called.get((function, tuple(given)))
        if known is None:
            inner = _Growth()
            inner._called = self._called
            inner.of(function.body, {one.slot: size for one, size in zip(function.parameters, given, strict=True)})
            self.largest = max(self.largest, inner.largest)
            known = self._called[function, tuple(given)] = inner.left
        return known


def _of_constant(value: object) -> float:
    try:
        return 0 if weight_of(value) <= LARGEST_CONSTANT else ENDLESS
    except CannotApply:
        return ENDLESS


def _widen(sizes: Sizes, other: Mapping[int | str, float]) -> None:
    for name, size in other.items():
        sizes[name] = max(sizes.get(name, 0), size)
