"""An expression in which every name has been looked up: what is compiled, and what the tests interpret.

What needs no event has become a Const. Each term knows where it is written.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from walflow.diagnostics import Span
from walflow_kernel.bits import Put
from walflow_kernel.functions import Function
from walflow_kernel.paths import PathStep


@dataclass(frozen=True, slots=True)
class Const:
    value: object
    span: Span


@dataclass(frozen=True, slots=True)
class WholeTerm:
    """`event` or `$`, and nothing behind it."""

    root: Literal["event", "$"]
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


Term = (
    Const
    | WholeTerm
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
        case Const() | WholeTerm():
            pass
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
