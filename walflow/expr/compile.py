"""Expression -> closure, once, when a flow is loaded; it is then called for each event.

What needs no event is folded, so `1 / 0` is an error of the file, and not of every event.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from walflow.diagnostics import Span, error
from walflow.expr import paths
from walflow.expr.binary import packing
from walflow.expr.constant import Constant
from walflow.expr.evaluate import Evaluate, always
from walflow.expr.fold import callee, fold, given, report_doubled, report_no_path
from walflow.expr.functions import Function
from walflow.expr.moves import moves, moves_at
from walflow.expr.nodes import (
    Access,
    Array,
    Binary,
    Bytes,
    Call,
    Expr,
    Literal,
    Merge,
    Name,
    Patch,
    Present,
    Record,
    Reference,
    Root,
    Segment,
    Slice,
    Text,
    Unary,
    Unsupported,
    spelled,
)
from walflow.expr.operators import CannotApply, against, boolean, function as operation, joined, spliced, unary
from walflow.expr.patching import merging, patching
from walflow.expr.scope import Scope


@dataclass(frozen=True, slots=True)
class Expression:
    """`constant`: its value, where it needs no event."""

    evaluate: Evaluate
    constant: Constant | None
    span: Span


def compiled(node: Expr, scope: Scope) -> Expression | None:
    """None: it has no value, and why has been reported."""
    if moves(node, scope):
        evaluate = _evaluate(node, scope)
        return None if evaluate is None else Expression(evaluate, None, node.span)
    constant = fold(node, scope)
    return None if constant is None else Expression(always(constant.value), constant, node.span)


def is_event(node: Expr) -> bool:
    """`event` and nothing else."""
    return isinstance(node, Root) and node.word == "event"


def _evaluate(node: Expr, scope: Scope) -> Evaluate | None:
    if not moves(node, scope):
        constant = fold(node, scope)
        return None if constant is None else always(constant.value)
    match node:
        case Root():
            return _root(node, scope)
        case Text():
            return _text(node, scope)
        case Array():
            return _array(node, scope)
        case Record():
            return _record(node, scope)
        case Access():
            return _access(node, scope)
        case Call():
            return _call(node, scope)
        case Unary():
            return _unary(node, scope)
        case Binary():
            return _binary(node, scope)
        case Present():
            return _present(node, scope)
        case Merge():
            return merging(node, scope, _evaluate)
        case Patch():
            return patching(node, scope, _evaluate)
        case Bytes():
            return packing(node, scope, _evaluate)
        case Literal() | Reference() | Unsupported():
            return None


def _evaluate_all(nodes: Sequence[Expr], scope: Scope) -> list[Evaluate] | None:
    evaluates = [_evaluate(node, scope) for node in nodes]
    found = [evaluate for evaluate in evaluates if evaluate is not None]
    return found if len(found) == len(evaluates) else None


def _root(node: Root, scope: Scope) -> Evaluate | None:
    match node.word:
        case "event":
            return lambda event, meta: event
        case "$":
            return lambda event, meta: meta
        case _:
            scope.report(error(f"`{node.word}` is not supported yet", node.span))
            return None


def _text(node: Text, scope: Scope) -> Evaluate | None:
    parts = [always(part) if isinstance(part, str) else _evaluate(part, scope) for part in node.parts]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    return lambda event, meta: joined([spliced(part(event, meta)) for part in found])


def _array(node: Array, scope: Scope) -> Evaluate | None:
    items = _evaluate_all(node.items, scope)
    if items is None:
        return None
    return lambda event, meta: [item(event, meta) for item in items]


def _record(node: Record, scope: Scope) -> Evaluate | None:
    _check_keys(node, scope)
    keys = _evaluate_all([field.key for field in node.fields], scope)
    values = _evaluate_all([field.value for field in node.fields], scope)
    if keys is None or values is None:
        return None
    fields = list(zip(keys, values, strict=True))
    return lambda event, meta: {key(event, meta): value(event, meta) for key, value in fields}


def _check_keys(node: Record, scope: Scope) -> None:
    """Of those that are plain text."""
    seen: set[str] = set()
    for field in node.fields:
        key = "".join(part for part in field.key.parts if isinstance(part, str))
        if not moves(field.key, scope) and key in seen:
            report_doubled(field.key, key, scope)
        seen.add(key)


# ---- paths


def _access(node: Access, scope: Scope) -> Evaluate | None:
    # `args.a[event.b]`: what needs no event is read at load, where a mistake in it is seen
    fixed = 0
    while not moves(node.of, scope) and not moves_at(node.segments[fixed], scope):
        fixed += 1
    of = _evaluate(Access(node.of, node.segments[:fixed], node.span) if fixed else node.of, scope)
    steps = [_step(segment, node, scope) for segment in node.segments[fixed:]]
    found = [step for step in steps if step is not None]
    if of is None or len(found) < len(steps):
        return None
    return paths.reading(None if is_event(node.of) else of, found)


def _step(segment: Segment, node: Access, scope: Scope) -> paths.Step | None:
    path = paths.shown(node.span)
    if isinstance(segment, Name):
        return paths.Fixed(segment.text, segment.text, path)
    shown = paths.shown(segment.span)
    if isinstance(segment, Slice):
        return _cut(segment, shown, path, scope)
    if moves(segment, scope):
        evaluate = _evaluate(segment, scope)
        return None if evaluate is None else paths.Moving(evaluate, shown, path)
    constant = fold(segment, scope)
    if constant is None:
        return None
    if not paths.is_key(constant.value):
        scope.report(error(paths.NO_KEY, segment.span))
        return None
    return paths.Fixed(constant.value, shown, path)


def _cut(segment: Slice, shown: str, path: str, scope: Scope) -> paths.Step | None:
    bounds = [_bound(bound, scope) for bound in (segment.begin, segment.end)]
    begin, end = bounds
    return None if begin is None or end is None else paths.Cut(begin, end, shown, path)


def _bound(node: Expr, scope: Scope) -> Evaluate | None:
    if moves(node, scope):
        return _evaluate(node, scope)
    constant = fold(node, scope)
    if constant is not None and not paths.is_index(constant.value):
        scope.report(error(paths.NO_BOUND, node.span))
        return None
    return None if constant is None else always(constant.value)


def _present(node: Present, scope: Scope) -> Evaluate | None:
    root = node.of.of if isinstance(node.of, Access) else node.of
    if not isinstance(root, Root):
        report_no_path(node, scope)
        return None
    read = _evaluate(node.of, scope)
    if read is None:
        return None

    def present(event: object, meta: Mapping[str, object]) -> bool:
        try:
            read(event, meta)
        except paths.Missing:
            return not node.wanted
        return node.wanted

    return present


# ---- calls and operators


def _call(node: Call, scope: Scope) -> Evaluate | None:
    function = callee(node, scope)
    if function is None:
        return None
    arguments = [_argument(function, at, node, scope) for at in range(len(node.arguments))]
    found = [argument for argument in arguments if argument is not None]
    if len(found) < len(arguments):
        return None
    return _calling(spelled(node.function), function.apply, found)


class _Argument(NamedTuple):
    """`take` is None for what was looked at when the file was read, or may be anything."""

    evaluate: Evaluate
    take: Callable[[object], object] | None


def _argument(function: Function, at: int, node: Call, scope: Scope) -> _Argument | None:
    argument = node.arguments[at]
    if not moves(argument, scope):
        constant = given(function, at, node, scope)
        return None if constant is None else _Argument(always(constant.value), None)
    evaluate, parameter = _evaluate(argument, scope), function.parameter(at)
    if evaluate is None:
        return None
    return _Argument(evaluate, parameter.take if parameter.kind.types else None)


def _calling(name: str, apply: Callable[..., object], arguments: Sequence[_Argument]) -> Evaluate:
    evaluates = [argument.evaluate for argument in arguments]
    takes = [(at, argument.take) for at, argument in enumerate(arguments) if argument.take]

    def call(event: object, meta: Mapping[str, object]) -> object:
        values = [evaluate(event, meta) for evaluate in evaluates]
        try:
            for at, take in takes:
                values[at] = take(values[at])
            return apply(*values)
        except CannotApply as refused:
            raise CannotApply(f"`{name}`: {refused}") from None

    return call


def _unary(node: Unary, scope: Scope) -> Evaluate | None:
    operand = _evaluate(node.operand, scope)
    if operand is None:
        return None
    symbols = [symbol.text for symbol in reversed(node.operators)]

    def apply(event: object, meta: Mapping[str, object]) -> object:
        value = operand(event, meta)
        for symbol in symbols:
            value = unary(symbol, value)
        return value

    return apply


def _binary(node: Binary, scope: Scope) -> Evaluate | None:
    operands = _evaluate_all([node.first, *(operand for _, operand in node.rest)], scope)
    if operands is None:
        return None
    symbols = [symbol.text for symbol, _ in node.rest]
    if symbols[0] in {"and", "or"}:  # a level of the grammar: all are the same
        return partial(_shorten, symbols[0], operands)
    first, *others = operands
    if len(others) == 1 and not moves(node.rest[0][1], scope):
        return partial(_apply_against, against(symbols[0], others[0](None, {})), first)
    if len(others) == 1:
        return partial(_apply, operation(symbols[0]), first, others[0])
    steps = list(zip(map(operation, symbols), others, strict=True))
    return partial(_apply_all, first, steps)


def _shorten(symbol: str, operands: Sequence[Evaluate], event: object, meta: Mapping[str, object]) -> bool:
    """From left to right until one decides: `present event.a and event.a > 1`."""
    decisive = symbol == "or"
    for operand in operands:
        if boolean(symbol, operand(event, meta)) is decisive:
            return decisive
    return not decisive


Apply = Callable[[object, object], object]


def _apply(apply: Apply, left: Evaluate, right: Evaluate, event: object, meta: Mapping[str, object]) -> object:
    return apply(left(event, meta), right(event, meta))


def _apply_against(
    apply: Callable[[object], object], left: Evaluate, event: object, meta: Mapping[str, object]
) -> object:
    return apply(left(event, meta))


def _apply_all(
    first: Evaluate, steps: Sequence[tuple[Apply, Evaluate]], event: object, meta: Mapping[str, object]
) -> object:
    """In a loop: a chain of ten thousand does not nest."""
    value = first(event, meta)
    for apply, operand in steps:
        value = apply(value, operand(event, meta))
    return value
