"""The parts of an expression, in any kind of file. Each node knows its place."""

from typing import NamedTuple

from msgspec import Struct

from walflow.diagnostics import Span


class Name(NamedTuple):
    text: str
    span: Span


Path = tuple[Name, ...]  # a::b::c


def spelled(path: Path) -> str:
    return "::".join(name.text for name in path)


def path_span(path: Path) -> Span:
    return path[0].span.to(path[-1].span)


class Literal(Struct, frozen=True):
    """A number, a boolean, null."""

    value: object
    span: Span


class Text(Struct, frozen=True):
    """A string. Expressions in `#{}` are among its parts."""

    parts: "tuple[str | Expr, ...]"
    span: Span


class Array(Struct, frozen=True):
    items: "tuple[Expr, ...]"
    span: Span


class Field(NamedTuple):
    key: Text
    value: "Expr"


class RecordNode(Struct, frozen=True):
    fields: tuple[Field, ...]
    span: Span


class Reference(Struct, frozen=True):
    """A constant or a local; a constant may be one of a module."""

    path: Path
    span: Span


class Root(Struct, frozen=True):
    """`args`, `event`, `state`, `group`, `window`, `$`."""

    word: str
    span: Span


class SliceNode(Struct, frozen=True):
    """`[begin:end]` of a path, without `end`."""

    begin: "Expr"
    end: "Expr"
    span: Span


class Access(Struct, frozen=True):
    """`a.b[0]`: each segment is a name, an expression or a slice."""

    of: "Expr"
    segments: "tuple[Segment, ...]"
    span: Span


class CallNode(Struct, frozen=True):
    function: Path
    arguments: "tuple[Expr, ...]"
    span: Span


class Unary(Struct, frozen=True):
    """`not - x`: the operator next to the operand is the last one."""

    operators: tuple[Name, ...]
    operand: "Expr"
    span: Span


class BinaryNode(Struct, frozen=True):
    """`a + b - c`, flat, from left to right. So a chain of ten thousand does not nest."""

    first: "Expr"
    rest: "tuple[tuple[Name, Expr], ...]"
    span: Span


class Present(Struct, frozen=True):
    """`present event.a`, `absent event.a`."""

    wanted: bool
    of: "Expr"
    span: Span


class Merge(Struct, frozen=True):
    """`merge OF of SPEC end`"""

    of: "Expr"
    spec: "Expr"
    span: Span


class Operation(Struct, frozen=True):
    """One operation of a patch: `insert "key" => value`; `move "key" => "to"`; `merge => value`."""

    word: str
    key: Text | None
    value: "Expr | None"
    span: Span


class Patch(Struct, frozen=True):
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


class Bytes(Struct, frozen=True):
    """`<< fields >>`"""

    fields: tuple[Packed, ...]
    span: Span


class AnyNode(Struct, frozen=True):
    """`_`"""

    span: Span


class EqualNode(Struct, frozen=True):
    """A pattern that is an expression: it matches equal values."""

    value: "Expr"
    span: Span


class ExtractNode(Struct, frozen=True):
    """`name|argument|` after a `~`"""

    name: Name
    argument: str
    span: Span


class FieldNode(NamedTuple):
    """A field of a record pattern. `word`: `present`, `absent`, a comparison, or `~=`.
    `store`: the `name =` before it."""

    key: Name
    word: str
    test: "Expr | PatternNode | None"
    store: Name | None
    span: Span


class RecordPatternNode(Struct, frozen=True):
    """`%{ … }`"""

    fields: tuple[FieldNode, ...]
    span: Span


class ArrayPatternNode(Struct, frozen=True):
    """`%[ … ]`"""

    items: "tuple[PatternNode, ...]"
    span: Span


class TuplePatternNode(Struct, frozen=True):
    """`%( … )`; `open`: it ends in `...`."""

    items: "tuple[PatternNode, ...]"
    open: bool
    span: Span


class BoundNode(Struct, frozen=True):
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


class MatchNode(Struct, frozen=True):
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


class ForNode(Struct, frozen=True):
    """`for OF of cases into START use FOLD end`; START is None without `into`, FOLD without `use`."""

    of: "Expr"
    start: "Expr | None"
    fold: Name | None
    cases: tuple[ForCaseNode, ...]
    span: Span


# Only in scripts and functions: it has an effect, and a value like any other expression.


class LetNode(Struct, frozen=True):
    """`let PATH = VALUE`"""

    path: "Expr"
    value: "Expr"
    span: Span


class EmitNode(Struct, frozen=True):
    """`emit VALUE => "port"`. Without a value the event leaves, without a port by `out`."""

    value: "Expr | None"
    port: Text | None
    span: Span


class DropNode(Struct, frozen=True):
    span: Span


class RecurNode(Struct, frozen=True):
    """`recur(arguments)`: calls the function again that it is in."""

    arguments: "tuple[Expr, ...]"
    span: Span


class Unsupported(Struct, frozen=True):
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
