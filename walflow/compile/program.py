"""Expressions with all names looked up. They are compiled, and the tests interpret them. Each part that does not
depend on the event is a Const. Each term knows its place in the file.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec import Struct

from walflow.diagnostics import Span
from walflow_kernel.bits import Put
from walflow_kernel.functions import Function
from walflow_kernel.paths import PathStep
from walflow_kernel.patterns import Pattern
from walflow_kernel.state import BOUND
from walflow_kernel.windows.aggregates import Aggregate


class Const(Struct, frozen=True):
    value: object
    span: Span


class WholeTerm(Struct, frozen=True):
    """`event`, `$`, `state`, `group` or `window`, without a path after it."""

    root: Literal["event", "$", "state", "group", "window"]
    span: Span


class LocalTerm(Struct, frozen=True):
    """A name of `let`, of a parameter or of a pattern. `slot`: its number within the script or function. `sure`: it
    has a value on every way that leads here."""

    slot: int
    name: str
    sure: bool
    span: Span


class KeyStep(NamedTuple):
    """A key or an index that is known at load."""

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


class ReadPath(Struct, frozen=True):
    """A path with at least one step."""

    of: "Term"
    steps: tuple[KeyStep | KeyBy | TextPart, ...]
    span: Span


class TextOf(Struct, frozen=True):
    parts: "tuple[str | Term, ...]"
    span: Span


class ArrayOf(Struct, frozen=True):
    items: "tuple[Term, ...]"
    span: Span


class RecordOf(Struct, frozen=True):
    fields: "tuple[tuple[Term, Term], ...]"
    span: Span


class Argument(NamedTuple):
    """`take` converts the value to the argument of the function, or refuses it. None for a constant, which was
    converted at load. `kind`: the one type that needs no check."""

    term: "Term"
    take: Callable[[object], object] | None
    kind: type | None = None


class CallOf(Struct, frozen=True):
    name: str
    function: Function
    arguments: tuple[Argument, ...]
    span: Span


class UnaryOf(Struct, frozen=True):
    """`symbols`: the one next to the operand comes first."""

    symbols: tuple[str, ...]
    operand: "Term"
    span: Span


class BinaryOf(Struct, frozen=True):
    """From left to right. `and` and `or` are not mixed: all symbols are the same."""

    first: "Term"
    rest: "tuple[tuple[str, Term], ...]"
    span: Span


class PresentOf(Struct, frozen=True):
    """`of` is a ReadPath or a WholeTerm."""

    wanted: bool
    of: "Term"
    span: Span


class MergeOf(Struct, frozen=True):
    of: "Term"
    spec: "Term"
    span: Span


class Change(NamedTuple):
    """One operation of a patch. For `move` and `copy`, `value` is the new key."""

    word: str
    key: "Term | None"
    value: "Term | None"


class PatchOf(Struct, frozen=True):
    of: "Term"
    changes: tuple[Change, ...]
    span: Span


class PackOf(Struct, frozen=True):
    fields: "tuple[tuple[Term, Put], ...]"
    span: Span


class CaseOf(NamedTuple):
    """`pattern` is None if it matches any value. `given`: expressions in the pattern, which are evaluated before it
    is tried. `bind`: the local that gets what the pattern makes."""

    pattern: Pattern | None
    given: "tuple[Term, ...]"
    bind: LocalTerm | None
    guard: "Term | None"
    body: "Term"
    span: Span


class MatchOf(Struct, frozen=True):
    """`reads`: the paths that the patterns read, if all patterns are of records and `of` is the unchanged event. Then
    the event is not needed whole. Otherwise None."""

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


class ForOf(Struct, frozen=True):
    """Without `start`: an array of the results of the cases.
    With `start`: `fold` combines the start with each result."""

    of: "Term"
    start: "Term | None"
    fold: str
    cases: tuple[ForCaseOf, ...]
    span: Span


@dataclass(eq=False, slots=True)
class FunctionOf:
    """A function of the language. `body` ends in a ReturnOf on each way, and is set when it has been read.
    `variadic`: the last parameter is an array of all further arguments."""

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


class InvokeOf(Struct, frozen=True):
    function: FunctionOf
    arguments: "tuple[Term, ...]"
    span: Span


# ---- effects: only in scripts and functions


class StepsOf(Struct, frozen=True):
    """One after the other. Its value is that of the last one."""

    steps: "tuple[Term, ...]"
    span: Span


class LetOf(Struct, frozen=True):
    """From here on, `target`, or the part of it that `steps` lead to, is `value`."""

    target: "WholeTerm | LocalTerm"
    steps: tuple[KeyStep | KeyBy, ...]
    value: "Term"
    span: Span


class EmitOf(Struct, frozen=True):
    """Ends the script. `value` is None for the unchanged event."""

    value: "Term | None"
    port: str
    span: Span


class DropOf(Struct, frozen=True):
    span: Span


class ReturnOf(Struct, frozen=True):
    """Ends a function."""

    value: "Term"
    span: Span


class RecurOf(Struct, frozen=True):
    """Begins the function again that it is in."""

    arguments: "tuple[Term, ...]"
    span: Span


class ScriptOf(NamedTuple):
    """`body` ends in an EmitOf or a DropOf on each way. `sets_event`, `sets_meta`: whether it assigns to them or to a
    part of them. `unsure`: slots that may be read before they have a value. `keeps`: it has a `state`, which has the
    first value `begins` and at most `bound` bytes."""

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


# ---- windows


class AggregateOf(Struct, frozen=True):
    """What an aggregate says of a window that is closed. `at`: its first slot in the frame. `option`: its constant
    argument. `aggregate` is None for the number of groups."""

    name: str
    aggregate: Aggregate | None
    at: int
    option: object
    span: Span


class AggregateInput(NamedTuple):
    """What an aggregate is given of each event."""

    name: str
    aggregate: Aggregate
    at: int
    value: "Term"
    takes_number: bool


class VerdictOf(NamedTuple):
    """The script of a window with a `state`: it ends in whether the window closes. `begins`: the first value of the
    state. `unsure`: as a script's."""

    body: "Term"
    unsure: tuple[int, ...]
    begins: object


class TickedOf(NamedTuple):
    """The same with a script for ticks, which sees the `state` alone."""

    body: "Term"
    unsure: tuple[int, ...]
    begins: object
    tick: VerdictOf


class FrameOf(NamedTuple):
    """A window of a select: of `size`, of `interval` nanoseconds, or with a `verdict`. `measure`: what its script
    says of an event: when it was, or how much of the size it takes."""

    name: str
    size: int | None
    interval: int | None
    measure: "Term | None"
    span: Span
    verdict: VerdictOf | TickedOf | None = None

    @property
    def tick(self) -> VerdictOf | None:
        return self.verdict.tick if isinstance(self.verdict, TickedOf) else None

    @property
    def timed(self) -> bool:
        """Time alone may close it."""
        return self.tick is not None or (self.interval is not None and self.measure is None)


class GroupKey(NamedTuple):
    """`each`: each element of the value is a group of its own."""

    value: "Term"
    each: bool


class WindowsOf(NamedTuple):
    """What a select keeps by group. `frames` is empty where there is nothing but `group by`. `start`: makes the slots
    of a window without events. `most`: groups. `max_bytes`: of all that is kept."""

    frames: tuple[FrameOf, ...]
    keys: tuple[GroupKey, ...]
    inputs: tuple[AggregateInput, ...]
    start: tuple[Callable[[], list[object]], ...]
    most: int
    max_bytes: int
    span: Span

    @property
    def event_terms(self) -> "list[Term]":
        """What sees the event, and what runs without one."""
        measures = [frame.measure for frame in self.frames if frame.measure is not None]
        measures += [frame.verdict.body for frame in self.frames if frame.verdict is not None]
        measures += [frame.tick.body for frame in self.frames if frame.tick is not None]
        return [*(key.value for key in self.keys), *measures, *(one.value for one in self.inputs)]


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
    | AggregateOf
)


def parts(term: Term) -> Iterator[Term]:
    """Its direct parts."""
    match term:
        case Const() | WholeTerm() | LocalTerm() | DropOf() | AggregateOf():
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
    """The term itself and all its parts, at any depth."""
    waiting = [term]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += parts(one)


def functions(terms: Iterable[Term]) -> list[FunctionOf]:
    """The functions that are called, also by each other."""
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
    """Whether no way leads past it."""
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
    """Whether it cannot be in a function of its own: it assigns to a local, or ends what it is in."""
    return any(isinstance(one, LetOf | EmitOf | DropOf | ReturnOf | RecurOf) for one in walk(term))
