"""Comparisons that no event can pass: of a member whose kind its codec decides with a constant of another kind. Only
what is known of each event that comes is said: not behind a script, an operator or a select that makes another event.
"""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from walflow.codecs.kinds import NUMBERED, Kind, Member, kind_at
from walflow.compile.program import BinaryOf, Const, KeyStep, LetOf, MatchOf, ReadPath, Term, WholeTerm, walk
from walflow.diagnostics import Report, Span, one_of
from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link, PipelinePlan, PlannedSelect
from walflow.plan.graph import Port
from walflow.warnings import warning
from walflow.warnings.other_kind import OTHER_KIND
from walflow_kernel.patterns import Equals, RecordPattern

_COMPARE: Final[Mapping[str, Callable[[int | float, int | float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_OUTCOMES: Final = {"==": "is never true", "!=": "is always true"}
_MOST_NAMES: Final = 8


class _Compared(NamedTuple):
    """`text`: of the member, as it is written. `written`: the operator; None: of a case. `symbol`: the one that means
    the same if the member stands on the left."""

    member: Member
    text: str
    written: str | None
    symbol: str
    value: object
    span: Span


def check_kinds(assembly: Assembly, report: Report) -> None:
    origins = _Origins(assembly)
    for pipeline in assembly.pipelines:
        for place, terms in _terms(pipeline):
            codecs = origins.of(Port(pipeline.id, place))
            for compared in _compared(terms) if codecs else ():
                _check(compared, codecs, report)


def _check(compared: _Compared, codecs: Sequence[str], report: Report) -> None:
    kind, given = kind_at(codecs[0], compared.member), _kind(compared.value)
    if kind is None or given is None or given == kind:
        return
    if any(kind_at(codec, compared.member) != kind for codec in codecs):
        return
    makes = f"codec {codecs[0]} makes" if len(codecs) == 1 else f"codecs {' and '.join(codecs)} make"
    outcome = _OUTCOMES.get(compared.symbol, "always fails")
    so = f"`{compared.written}` with {_a(given)} {outcome}" if compared.written else "this case never fits"
    message = f"{makes} `{compared.text}` {_a(kind)}, so {so}"
    report(warning(OTHER_KIND, message, compared.span, _hint(compared, codecs, kind)))


def _hint(compared: _Compared, codecs: Sequence[str], kind: Kind) -> str | None:
    symbol, value, text = compared.symbol, compared.value, compared.text
    if kind == "number" and isinstance(value, str):
        return "a number has no quotes"
    if kind != "string" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    names = NUMBERED.get((codecs[0], compared.member), ()) if len(codecs) == 1 else ()
    meant = [name for number, name in enumerate(names) if _COMPARE[symbol](number, value)]
    others = [name for name in names if name not in meant]
    if compared.written is None and len(meant) == 1:
        return f'write `"{meant[0]}"`'
    if len(meant) == 1 or len(others) == 1:
        return f'write `{text} == "{meant[0]}"`' if len(meant) == 1 else f'write `{text} != "{others[0]}"`'
    if meant and others and min(len(meant), len(others)) <= _MOST_NAMES:
        few, negated = (meant, "") if len(meant) <= len(others) else (others, "not ")
        listed = ", ".join(f'"{name}"' for name in few)
        return f"write `{negated}array::contains([{listed}], {text})` with `use std::array;`"
    if names:
        return f"it is a name: {one_of(names[:_MOST_NAMES])}{', …' if len(names) > _MOST_NAMES else ''}"
    if compared.written is None or symbol in _OUTCOMES:
        return f'write `"{value}"`'
    module = "integer" if isinstance(value, int) else "float"
    return f"write `{module}::parse({text}) {symbol} {value}` with `use std::{module};`"


def _kind(value: object) -> Kind | None:
    match value:
        case bool():
            return "boolean"
        case str() | bytes():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "record"
        case _:  # null, say: a member that is compared with it is asked for
            return None


def _a(kind: Kind) -> str:
    return "an array" if kind == "array" else f"a {kind}"


# ---- what is compared


def _terms(pipeline: PipelinePlan) -> Iterator[tuple[str, Sequence[Term]]]:
    """What sees the events that come to a place."""
    for select in pipeline.selects:
        seen = [select.what, select.where, select.having if _keeps(select) else None]
        terms = [one.term for one in seen if one is not None]
        yield select.source, [*terms, *(select.windows.event_terms if select.windows is not None else ())]
    for script in pipeline.scripts:
        for place, one in script.places.items():
            yield place, [one.body]


def _compared(terms: Sequence[Term]) -> Iterator[_Compared]:
    parts = [part for term in terms for part in walk(term)]
    changed = {_first_key(part) for part in parts if isinstance(part, LetOf) and _is_event(part.target)}
    if None in changed:
        return
    for part in parts:
        for compared in _of(part):
            if not compared.member or compared.member[0] not in changed:
                yield compared


def _first_key(let: LetOf) -> str | int | None:
    """None: any part of the event may change."""
    step = let.steps[0] if let.steps else None
    return step.key if isinstance(step, KeyStep) else None


def _of(term: Term) -> Iterator[_Compared]:
    match term:
        case BinaryOf(first=left, rest=((symbol, right),)) if symbol in _COMPARE:
            for one, other, meant in ((left, right, symbol), (right, left, _MIRRORED[symbol])):
                member = _member(one)
                if member is not None and isinstance(other, Const):
                    yield _Compared(member, one.span.text, symbol, meant, other.value, term.span)
        case MatchOf():
            member = _member(term.of)
            for case in term.cases if member is not None else ():
                match case.pattern:
                    case Equals(value):
                        yield _Compared(member or (), term.of.span.text, None, "==", value, case.span)
                    case RecordPattern(fields):
                        for field in fields:
                            if field.word in _COMPARE and field.word != "!=" and field.given is None:
                                text = f"{term.of.span.text}.{field.key}"
                                yield _Compared(
                                    (*(member or ()), field.key), text, None, field.word, field.value, case.span
                                )
                    case _:
                        pass
        case _:
            pass


def _member(term: Term) -> Member | None:
    match term:
        case WholeTerm(root="event"):
            return ()
        case ReadPath(of=WholeTerm(root="event"), steps=steps):
            keys = [step.key for step in steps if isinstance(step, KeyStep)]
            return tuple(keys) if len(keys) == len(steps) else None
        case _:
            return None


def _is_event(term: Term) -> bool:
    return isinstance(term, WholeTerm) and term.root == "event"


def _keeps(select: PlannedSelect) -> bool:
    return select.what is None and select.windows is None


# ---- where events come from


class _Origins:
    def __init__(self, assembly: Assembly) -> None:
        self._connectors: Mapping[NodeId, ConnectorPlan] = {plan.id: plan for plan in assembly.connectors}
        self._links: dict[Port, list[Link]] = defaultdict(list)
        for link in assembly.links:
            self._links[Port(link.target, link.target_port)].append(link)
        self._selects: dict[Port, list[PlannedSelect]] = defaultdict(list)
        self._made: set[Port] = set()  # places at which other events than those that came may be
        self._known: dict[Port, Sequence[str]] = {}
        for pipeline in assembly.pipelines:
            self._made |= {Port(pipeline.id, ERR), *(Port(pipeline.id, to) for to in pipeline.errs.values())}
            self._made |= {Port(pipeline.id, exit) for exits in pipeline.through.values() for exit in exits}
            for select in pipeline.selects:
                self._selects[Port(pipeline.id, select.target)].append(select)

    def of(self, place: Port) -> Sequence[str]:
        """The codecs that have decoded each event that comes here unchanged. Empty if one of them is not known. In a
        long row of pipelines each place ends at the one before, which is known."""
        if place not in self._known:
            self._known[place] = self._found(place)
        return self._known[place]

    def _found(self, place: Port) -> Sequence[str]:
        codecs: dict[str, None] = {}
        waiting = [place]
        seen = {place}
        for port in waiting:
            if (known := self._known.get(port)) is not None:
                if not known:
                    return ()
                codecs |= dict.fromkeys(known)
                continue
            before = self._before(port, codecs)
            if before is None:
                return ()
            waiting += [one for one in before if one not in seen]
            seen.update(before)
        return sorted(codecs)

    def _before(self, port: Port, codecs: dict[str, None]) -> Sequence[Port] | None:
        if port in self._made:
            return None
        found: list[Port] = []
        for select in self._selects[port]:
            if not _keeps(select):
                return None
            found.append(Port(port.node, select.source))
        for link in self._links[port]:
            plan = self._connectors.get(link.source)
            if plan is None:
                found.append(Port(link.source, link.source_port))
            elif link.source_port == ERR:
                return None
            elif plan.connector.traits.forwards:
                found += [Port(plan.id, name) for name in plan.connector.ports_used().inputs]
            elif plan.connector.traits.decodes and plan.codec is not None and not plan.connector.mixed():
                codecs[plan.codec.name] = None
            else:
                return None
        return found
