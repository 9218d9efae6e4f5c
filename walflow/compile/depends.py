"""Whether the value of an expression is known at load, or depends on the event."""

from collections.abc import Sequence

from walflow.compile.nodes import (
    Access,
    Array,
    BinaryNode,
    Bytes,
    CallNode,
    DropNode,
    EmitNode,
    Expr,
    ForNode,
    LetNode,
    Literal,
    MatchNode,
    Merge,
    Name,
    Patch,
    Present,
    RecordNode,
    RecurNode,
    Reference,
    Root,
    Segment,
    SliceNode,
    Text,
    Unary,
    Unsupported,
)
from walflow.compile.scope import Scope


def depends_on_event(node: Expr, scope: Scope) -> bool:
    """Whether the value may differ from one event to the next: it depends on the event, its time, or chance."""
    match node:
        case Root():
            # in a function with `...` they are the further arguments
            return node.word != "args" or scope.local((Name("args", node.span),)) is not None
        case CallNode():
            return scope.when(node.function) != "load" or _any(node.arguments, scope)
        case Reference():
            return scope.local(node.path) is not None
        case MatchNode() | ForNode() | LetNode() | EmitNode() | DropNode() | RecurNode():
            return True
        case Literal() | Unsupported():
            return False
        case Access():
            return depends_on_event(node.of, scope) or any(
                segment_depends_on_event(segment, scope) for segment in node.segments
            )
        case _:
            return _any(_parts(node), scope)


def segment_depends_on_event(segment: Segment, scope: Scope) -> bool:
    if isinstance(segment, SliceNode):
        return depends_on_event(segment.begin, scope) or depends_on_event(segment.end, scope)
    return not isinstance(segment, Name) and depends_on_event(segment, scope)


def _any(parts: Sequence[Expr], scope: Scope) -> bool:
    return any(depends_on_event(part, scope) for part in parts)


def _parts(node: Text | Array | RecordNode | Unary | BinaryNode | Present | Merge | Patch | Bytes) -> Sequence[Expr]:
    match node:
        case Text():
            return [part for part in node.parts if not isinstance(part, str)]
        case Array():
            return node.items
        case RecordNode():
            return [part for field in node.fields for part in (field.key, field.value)]
        case Unary():
            return [node.operand]
        case BinaryNode():
            return [node.first, *(operand for _, operand in node.rest)]
        case Present():
            return [node.of]
        case Bytes():
            return [field.value for field in node.fields]
        case Merge():
            return [node.of, node.spec]
        case Patch():
            inner = [part for operation in node.operations for part in (operation.key, operation.value)]
            return [node.of, *(part for part in inner if part is not None)]
