"""Expression -> closure, once, when a flow is loaded; it is then called for each event.

What needs no event is folded, so `1 / 0` is an error of the file, and not of every event.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from walflow.diagnostics import Span, error
from walflow.expr.constant import Constant, kind_of
from walflow.expr.fold import Scope, callee, fold, report_doubled, report_no_path
from walflow.expr.nodes import (
    Access,
    Array,
    Binary,
    Call,
    Expr,
    Literal,
    Name,
    Present,
    Record,
    Reference,
    Root,
    Text,
    Unary,
    Unsupported,
    spelled,
)
from walflow.expr.operators import CannotApply, CannotEvaluate, boolean, function, spliced, unary

Evaluate = Callable[[object, Mapping[str, object]], object]
"""What it is for an event and its metadata. Raises CannotEvaluate."""

LONGEST_SHOWN = 60  # characters of an expression in a message


@dataclass(frozen=True, slots=True)
class Expression:
    """`constant`: its value, where it needs no event."""

    evaluate: Evaluate
    constant: Constant | None
    span: Span


class Missing(CannotEvaluate):
    """A path leads to nothing."""


def compiled(node: Expr, scope: Scope) -> Expression | None:
    """None: it has no value, and why has been reported."""
    if _needs_event(node):
        evaluate = _evaluate(node, scope)
        return None if evaluate is None else Expression(evaluate, None, node.span)
    constant = fold(node, scope)
    return None if constant is None else Expression(_always(constant.value), constant, node.span)


def is_event(node: Expr) -> bool:
    """`event` and nothing else."""
    return isinstance(node, Root) and node.word == "event"


def _needs_event(node: Expr) -> bool:
    match node:
        case Root():
            return node.word != "args"
        case Text():
            parts: Sequence[Expr] = [part for part in node.parts if not isinstance(part, str)]
        case Array():
            parts = node.items
        case Record():
            parts = [part for field in node.fields for part in (field.key, field.value)]
        case Access():
            parts = [node.of, *(segment for segment in node.segments if not isinstance(segment, Name))]
        case Call():
            parts = node.arguments
        case Unary():
            parts = [node.operand]
        case Binary():
            parts = [node.first, *(operand for _, operand in node.rest)]
        case Present():
            parts = [node.of]
        case Literal() | Reference() | Unsupported():
            return False
    return any(map(_needs_event, parts))


def _evaluate(node: Expr, scope: Scope) -> Evaluate | None:
    if not _needs_event(node):
        constant = fold(node, scope)
        return None if constant is None else _always(constant.value)
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
        case Literal() | Reference() | Unsupported():
            return None


def _evaluate_all(nodes: Sequence[Expr], scope: Scope) -> list[Evaluate] | None:
    evaluates = [_evaluate(node, scope) for node in nodes]
    found = [evaluate for evaluate in evaluates if evaluate is not None]
    return found if len(found) == len(evaluates) else None


def _always(value: object) -> Evaluate:
    return lambda event, meta: value


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
    parts = [_always(part) if isinstance(part, str) else _evaluate(part, scope) for part in node.parts]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    return lambda event, meta: "".join([spliced(part(event, meta)) for part in found])


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
        if not _needs_event(field.key) and key in seen:
            report_doubled(field.key, key, scope)
        seen.add(key)


# ---- paths


class _Step:
    """One key of a path, and how it is written."""

    __slots__ = ("evaluate", "key", "path", "shown")

    def __init__(self, key: object, evaluate: Evaluate | None, shown: str, path: str) -> None:
        self.key = key
        self.evaluate = evaluate  # where the key depends on the event
        self.shown = shown
        self.path = path

    def missing(self, value: object) -> Missing:
        return Missing(f"`{self.path}`: {kind_of(value)} without `{self.shown}`")


def _access(node: Access, scope: Scope) -> Evaluate | None:
    # `args.a[event.b]`: what needs no event is read at load, where a mistake in it is seen
    fixed = 0
    while not _needs_event(node.of) and not _moves(node.segments[fixed]):
        fixed += 1
    of = _evaluate(Access(node.of, node.segments[:fixed], node.span) if fixed else node.of, scope)
    steps = [_step(segment, node, scope) for segment in node.segments[fixed:]]
    found = [step for step in steps if step is not None]
    if of is None or len(found) < len(steps):
        return None
    if any(step.evaluate for step in found):
        return partial(_read_moving, of, found)
    keys = tuple((step.key, _kind(step.key), step) for step in found)
    return partial(_read_event, keys) if is_event(node.of) else partial(_read, of, keys)


def _moves(segment: Name | Expr) -> bool:
    return not isinstance(segment, Name) and _needs_event(segment)


def _step(segment: Name | Expr, node: Access, scope: Scope) -> _Step | None:
    path, shown = _shown(node.span), _shown(segment.span)
    if isinstance(segment, Name):
        return _Step(segment.text, None, segment.text, path)
    if _needs_event(segment):
        evaluate = _evaluate(segment, scope)
        return None if evaluate is None else _Step(None, evaluate, shown, path)
    constant = fold(segment, scope)
    if constant is None:
        return None
    if not _is_key(constant.value):
        scope.report(error("a key is a string, an index a whole number from 0 on", segment.span))
        return None
    return _Step(constant.value, None, shown, path)


def _is_key(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


Steps = tuple[tuple[Any, Any, _Step], ...]  # a key, and the type of what has such keys: mypy cannot pair them


def _read_event(steps: Steps, event: object, _meta: Mapping[str, object]) -> object:
    value: Any = event
    for key, kind, step in steps:
        if type(value) is not kind:  # exact: what JSON makes
            raise step.missing(value)
        try:
            value = value[key]
        except (KeyError, IndexError):
            raise step.missing(value) from None
    return value


def _read(of: Evaluate, steps: Steps, event: object, meta: Mapping[str, object]) -> object:
    return _read_event(steps, of(event, meta), meta)


def _read_moving(of: Evaluate, steps: Sequence[_Step], event: object, meta: Mapping[str, object]) -> object:
    value = of(event, meta)
    for step in steps:
        key = step.evaluate(event, meta) if step.evaluate else step.key
        if not _is_key(key):
            raise CannotApply(f"`{step.path}`: `{step.shown}` is {kind_of(key)}, neither a key nor an index")
        value = _read_event(((key, _kind(key), step),), value, meta)
    return value


def _kind(key: object) -> type:
    return dict if isinstance(key, str) else list


def _shown(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


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
        except Missing:
            return not node.wanted
        return node.wanted

    return present


# ---- calls and operators


def _call(node: Call, scope: Scope) -> Evaluate | None:
    function = callee(node, scope)
    arguments = _evaluate_all(node.arguments, scope)
    if function is None or arguments is None:
        return None
    name = spelled(node.function)

    def call(event: object, meta: Mapping[str, object]) -> object:
        given = [argument(event, meta) for argument in arguments]
        try:
            return function(*given)
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
    if len(others) == 1:
        return partial(_apply, function(symbols[0]), first, others[0])
    steps = list(zip(map(function, symbols), others, strict=True))
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


def _apply_all(
    first: Evaluate, steps: Sequence[tuple[Apply, Evaluate]], event: object, meta: Mapping[str, object]
) -> object:
    """In a loop: a chain of ten thousand does not nest."""
    value = first(event, meta)
    for apply, operand in steps:
        value = apply(value, operand(event, meta))
    return value
