"""The parts of an expression, in any kind of file. Each node knows its place."""

from dataclasses import dataclass
from typing import NamedTuple

from walflow.diagnostics import Span


class Name(NamedTuple):
    text: str
    span: Span


Path = tuple[Name, ...]  # a::b::c


def spelled(path: Path) -> str:
    return "::".join(name.text for name in path)


def path_span(path: Path) -> Span:
    return path[0].span.to(path[-1].span)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a boolean, null."""

    value: object
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    """A string. Expressions in `#{}` are among its parts."""

    parts: "tuple[str | Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class Array:
    items: "tuple[Expr, ...]"
    span: Span


class Field(NamedTuple):
    key: Text
    value: "Expr"


@dataclass(frozen=True, slots=True)
class RecordNode:
    fields: tuple[Field, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Reference:
    """A constant or a local; a constant may be one of a module."""

    path: Path
    span: Span


@dataclass(frozen=True, slots=True)
class Root:
    """`args`, `event`, `state`, `group`, `window`, `$`."""

    word: str
    span: Span


@dataclass(frozen=True, slots=True)
class SliceNode:
    """`[begin:end]` of a path, without `end`."""

    begin: "Expr"
    end: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Access:
    """`a.b[0]`: each segment is a name, an expression or a slice."""

    of: "Expr"
    segments: "tuple[Segment, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class CallNode:
    function: Path
    arguments: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`not - x`: the operator next to the operand is the last one."""

    operators: tuple[Name, ...]
    operand: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class BinaryNode:
    """`a + b - c`, flat, from left to right. So a chain of ten thousand does not nest."""

    first: "Expr"
    rest: "tuple[tuple[Name, Expr], ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class Present:
    """`present event.a`, `absent event.a`."""

    wanted: bool
    of: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Merge:
    """`merge OF of SPEC end`"""

    of: "Expr"
    spec: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a patch: `insert "key" => value`; `move "key" => "to"`; `merge => value`."""

    word: str
    key: Text | None
    value: "Expr | None"
    span: Span


@dataclass(frozen=True, slots=True)
class Patch:
    """`patch OF of operations end`"""

    of: "Expr"
    operations: tuple[Operation, ...]
    span: Span


class Size(NamedTuple):
    """Bits of a number, bytes of binary data."""

    value: int
    span: Span


class Packed(NamedTuple):
    """`value:size/type`"""

    value: "Expr"
    size: Size | None
    type: Name | None


@dataclass(frozen=True, slots=True)
class Bytes:
    """`<< fields >>`"""

    fields: tuple[Packed, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AnyNode:
    """`_`"""

    span: Span


@dataclass(frozen=True, slots=True)
class EqualNode:
    """A pattern that is an expression: it matches equal values."""

    value: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class ExtractNode:
    """`name|argument|` after a `~`"""

    name: Name
    argument: str
    span: Span


class FieldNode(NamedTuple):
    """A field of a record pattern. `word`: `present`, `absent`, a comparison, or `~=`. `store`: the `name =` before it."""

    key: Name
    word: str
    test: "Expr | PatternNode | None"
    store: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class RecordPatternNode:
    """`%{ … }`"""

    fields: tuple[FieldNode, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ArrayPatternNode:
    """`%[ … ]`"""

    items: "tuple[PatternNode, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class TuplePatternNode:
    """`%( … )`; `open`: it ends in `...`."""

    items: "tuple[PatternNode, ...]"
    open: bool
    span: Span


@dataclass(frozen=True, slots=True)
class BoundNode:
    """`name = pattern`"""

    name: Name
    pattern: "PatternNode"
    span: Span


PatternNode = AnyNode | EqualNode | ExtractNode | RecordPatternNode | ArrayPatternNode | TuplePatternNode | BoundNode


class CaseNode(NamedTuple):
    """`pattern` is None for `default`."""

    pattern: PatternNode | None
    guard: "Expr | None"
    body: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class MatchNode:
    """`match OF of cases end`"""

    of: "Expr"
    cases: tuple[CaseNode, ...]
    span: Span


class ForCaseNode(NamedTuple):
    """`case (key, value) when guard => body`"""

    key: Name
    value: Name
    guard: "Expr | None"
    body: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class ForNode:
    """`for OF into START use FOLD of cases end`; START is None without `into`, FOLD without `use`."""

    of: "Expr"
    start: "Expr | None"
    fold: Name | None
    cases: tuple[ForCaseNode, ...]
    span: Span


# Only in scripts and functions: it has an effect, and a value like any other expression.


@dataclass(frozen=True, slots=True)
class LetNode:
    """`let PATH = VALUE`"""

    path: "Expr"
    value: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class EmitNode:
    """`emit VALUE => "port"`. Without a value the event leaves, without a port by `out`."""

    value: "Expr | None"
    port: Text | None
    span: Span


@dataclass(frozen=True, slots=True)
class DropNode:
    span: Span


@dataclass(frozen=True, slots=True)
class RecurNode:
    """`recur(arguments)`: calls the function again that it is in."""

    arguments: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class Unsupported:
    """It is correct, but not supported yet. That was reported."""

    span: Span


Expr = (
    Literal
    | Text
    | Array
    | RecordNode
    | Reference
    | Root
    | Access
    | CallNode
    | Unary
    | BinaryNode
    | Present
    | Merge
    | Patch
    | Bytes
    | MatchNode
    | ForNode
    | LetNode
    | EmitNode
    | DropNode
    | RecurNode
    | Unsupported
)
Segment = Name | SliceNode | Expr
