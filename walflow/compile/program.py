"""An expression in which every name has been looked up: what is compiled, and what the tests interpret.

What needs no event has become a Const. Each term knows where it is written.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from walflow.diagnostics import Span
from walflow_kernel.bits import Put
from walflow_kernel.functions import Function
from walflow_kernel.paths import PathStep
from walflow_kernel.patterns import Pattern
from walflow_kernel.state import BOUND


@dataclass(frozen=True, slots=True)
class Const:
    value: object
    span: Span


@dataclass(frozen=True, slots=True)
class WholeTerm:
    """`event`, `$` or `state`, and nothing behind it."""

    root: Literal["event", "$", "state"]
    span: Span


@dataclass(frozen=True, slots=True)
class LocalTerm:
    """What `let`, a parameter or a pattern has named. `slot`: its number within the script or function. `sure`: no way leads
    here by which it has no value yet."""

    slot: int
    name: str
    sure: bool
    span: Span


class KeyStep(NamedTuple):
    """A key or an index that is known."""

    key: str | int
    step: PathStep


class KeyBy(NamedTuple):
    """A key or an index that depends on the event."""

    key: "Term"
    step: PathStep


class TextPart(NamedTuple):
    begin: "Term"
    end: "Term"
    step: PathStep


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A path: one step at least."""

    of: "Term"
    steps: tuple[KeyStep | KeyBy | TextPart, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TextOf:
    parts: "tuple[str | Term, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class ArrayOf:
    items: "tuple[Term, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class RecordOf:
    fields: "tuple[tuple[Term, Term], ...]"
    span: Span


class Argument(NamedTuple):
    """`take` turns the value into what the function is given, and refuses it; None for a constant, which has been taken at
    load. `kind`: the one type that needs no look at it."""

    term: "Term"
    take: Callable[[object], object] | None
    kind: type | None = None


@dataclass(frozen=True, slots=True)
class CallOf:
    name: str
    function: Function
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class UnaryOf:
    """`symbols` from the one next to the operand on."""

    symbols: tuple[str, ...]
    operand: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class BinaryOf:
    """From left to right; of `and` and `or` all symbols are the same."""

    first: "Term"
    rest: "tuple[tuple[str, Term], ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class PresentOf:
    """`of` is a Read or a Whole."""

    wanted: bool
    of: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class MergeOf:
    of: "Term"
    spec: "Term"
    span: Span


class Change(NamedTuple):
    """One operation of a patch. `value` of `move` and `copy` is the new key."""

    word: str
    key: "Term | None"
    value: "Term | None"


@dataclass(frozen=True, slots=True)
class PatchOf:
    of: "Term"
    changes: tuple[Change, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PackOf:
    fields: "tuple[tuple[Term, Put], ...]"
    span: Span


class CaseOf(NamedTuple):
    """`pattern` is None for what always fits. `given`: expressions in the pattern, worked out before it is tried. `bind`:
    the local that takes what the pattern makes."""

    pattern: Pattern | None
    given: "tuple[Term, ...]"
    bind: LocalTerm | None
    guard: "Term | None"
    body: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class MatchOf:
    """`reads`: where all patterns are of records and `of` is the event as it came, the paths that they ask for: then it is
    not needed whole. None where it is."""

    of: "Term"
    cases: tuple[CaseOf, ...]
    reads: "tuple[ReadPath, ...] | None"
    span: Span


class ForCaseOf(NamedTuple):
    key: LocalTerm
    value: LocalTerm
    guard: "Term | None"
    body: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class ForOf:
    """Without `start` an array of what the cases make. With it, what `fold` makes of the start and each of them."""

    of: "Term"
    start: "Term | None"
    fold: str
    cases: tuple[ForCaseOf, ...]
    span: Span


@dataclass(eq=False, slots=True)
class FunctionOf:
    """A function of the language. `body` ends in a ReturnOf on each way, and is set once it is read. `variadic`: the last
    parameter is an array of all further arguments."""

    name: str
    parameters: tuple[LocalTerm, ...]
    variadic: bool
    body: "Term | None"
    recurs: bool
    unsure: tuple[int, ...]
    span: Span

    def takes(self, given: int) -> bool:
        return given >= self.least if self.variadic else given == self.least

    @property
    def least(self) -> int:
        return len(self.parameters) - self.variadic


@dataclass(frozen=True, slots=True)
class InvokeOf:
    function: FunctionOf
    arguments: "tuple[Term, ...]"
    span: Span


# ---- what does something: it stands in scripts and functions alone


@dataclass(frozen=True, slots=True)
class StepsOf:
    """One after the other; the last one's value counts."""

    steps: "tuple[Term, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class LetOf:
    """What `target` stands for, or what `steps` lead to in it, is `value` from here on."""

    target: "WholeTerm | LocalTerm"
    steps: tuple[KeyStep | KeyBy, ...]
    value: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class EmitOf:
    """It ends the script. `value` is None for the event as it came."""

    value: "Term | None"
    port: str
    span: Span


@dataclass(frozen=True, slots=True)
class DropOf:
    span: Span


@dataclass(frozen=True, slots=True)
class ReturnOf:
    """It ends a function."""

    value: "Term"
    span: Span


@dataclass(frozen=True, slots=True)
class RecurOf:
    """The function that it stands in, from the beginning."""

    arguments: "tuple[Term, ...]"
    span: Span


class ScriptOf(NamedTuple):
    """`body` ends in an EmitOf or a DropOf on each way. `sets_event`, `sets_meta`: whether it assigns to them, or to what is
    in them. `unsure`: slots that may be read before they have a value. `keeps`: it has a `state`, which begins as `begins`
    and has at most `bound` bytes."""

    name: str
    body: "Term"
    ports: tuple[str, ...]
    sets_event: bool
    sets_meta: bool
    unsure: tuple[int, ...]
    span: Span
    keeps: bool = False
    begins: object = None
    bound: int = BOUND


Term = (
    Const
    | WholeTerm
    | LocalTerm
    | MatchOf
    | ForOf
    | InvokeOf
    | StepsOf
    | LetOf
    | EmitOf
    | DropOf
    | ReturnOf
    | RecurOf
    | ReadPath
    | TextOf
    | ArrayOf
    | RecordOf
    | CallOf
    | UnaryOf
    | BinaryOf
    | PresentOf
    | MergeOf
    | PatchOf
    | PackOf
)


def parts(term: Term) -> Iterator[Term]:
    """What it is made of, one level down."""
    match term:
        case Const() | WholeTerm() | LocalTerm() | DropOf():
            pass
        case MatchOf():
            yield from [term.of] if term.reads is None else term.reads
            for case in term.cases:
                yield from case.given
                yield from (part for part in (case.guard, case.body) if part is not None)
        case ForOf():
            yield term.of
            if term.start is not None:
                yield term.start
            for turn in term.cases:
                yield from (part for part in (turn.guard, turn.body) if part is not None)
        case InvokeOf() | RecurOf():
            yield from term.arguments
        case StepsOf():
            yield from term.steps
        case LetOf():
            if isinstance(term.target, WholeTerm):
                yield term.target
            yield from (step.key for step in term.steps if isinstance(step, KeyBy))
            yield term.value
        case EmitOf():
            if term.value is not None:
                yield term.value
        case ReturnOf():
            yield term.value
        case ReadPath():
            yield term.of
            for step in term.steps:
                if isinstance(step, KeyBy):
                    yield step.key
                elif isinstance(step, TextPart):
                    yield from (step.begin, step.end)
        case TextOf():
            yield from (part for part in term.parts if not isinstance(part, str))
        case ArrayOf():
            yield from term.items
        case RecordOf():
            yield from (part for field in term.fields for part in field)
        case CallOf():
            yield from (argument.term for argument in term.arguments)
        case UnaryOf():
            yield term.operand
        case BinaryOf():
            yield term.first
            yield from (operand for _, operand in term.rest)
        case PresentOf():
            yield term.of
        case MergeOf():
            yield from (term.of, term.spec)
        case PatchOf():
            yield term.of
            for change in term.changes:
                yield from (part for part in (change.key, change.value) if part is not None)
        case PackOf():
            yield from (value for value, _ in term.fields)


def walk(term: Term) -> Iterator[Term]:
    """Itself and all that it is made of."""
    waiting = [term]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += parts(one)


def functions(terms: Iterable[Term]) -> list[FunctionOf]:
    """Those that are called, by each other too."""
    found: dict[FunctionOf, None] = {}
    waiting = list(terms)
    while waiting:
        for one in walk(waiting.pop()):
            if isinstance(one, InvokeOf) and one.function not in found:
                found[one.function] = None
                if one.function.body is not None:
                    waiting.append(one.function.body)
    return list(found)


def ends(term: Term) -> bool:
    """No way leads behind it."""
    match term:
        case EmitOf() | DropOf() | ReturnOf() | RecurOf():
            return True
        case StepsOf():
            return any(map(ends, term.steps))
        case MatchOf():
            whole = any(case.pattern is None and case.guard is None for case in term.cases)
            return whole and all(ends(case.body) for case in term.cases)
        case _:
            return False


def has_effects(term: Term) -> bool:
    """It cannot stand in a function of its own: it assigns to a local, or ends what it stands in."""
    return any(isinstance(one, LetOf | EmitOf | DropOf | ReturnOf | RecurOf) for one in walk(term))
