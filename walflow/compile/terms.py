"""Expression as written -> a term: names are looked up, what does not depend on the event is evaluated, mistakes are
reported. So `1 / 0` is an error of the file, not of each event.
"""

from collections.abc import Sequence
from typing import Protocol

from walflow.compile.depends import depends_on_event, segment_depends_on_event
from walflow.compile.fold import (
    callee,
    fold,
    given,
    put,
    record,
    report_doubled,
    report_no_path,
    shown,
    warn_of_unknown,
)
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
    Operation,
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
    spelled,
)
from walflow.compile.program import (
    Argument,
    ArrayOf,
    BinaryOf,
    CallOf,
    Change,
    Const,
    FunctionOf,
    InvokeOf,
    KeyBy,
    KeyStep,
    MergeOf,
    PackOf,
    PatchOf,
    PresentOf,
    ReadPath,
    RecordOf,
    Term,
    TextOf,
    TextPart,
    UnaryOf,
)
from walflow.compile.scope import Scope
from walflow.diagnostics import Span, error
from walflow_kernel import paths
from walflow_kernel.functions import Function, Parameter


class TermScope(Scope, Protocol):
    """A place in a select, a script or a function."""

    def root(self, node: Root) -> Term | None:
        """`event`, `$`, `state` …"""
        ...

    def instead(self, node: Expr) -> Term | None:
        """What stands for an expression that is of the event, where there is none."""
        ...

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        """A function that only a window has a value of."""
        ...

    def further(self, node: MatchNode | ForNode | LetNode | EmitNode | DropNode | RecurNode) -> Term | None:
        """What sets locals, or is allowed only at such a place."""
        ...


def term_of(node: Expr, scope: TermScope) -> Term | None:
    if not depends_on_event(node, scope):
        constant = fold(node, scope)
        return None if constant is None else Const(constant.value, node.span)
    stand_in = scope.instead(node)
    if stand_in is not None:
        return stand_in
    match node:
        case Root():
            return scope.root(node)
        case Text():
            return _text(node, scope)
        case Array():
            items = _terms(node.items, scope)
            return None if items is None else ArrayOf(tuple(items), node.span)
        case RecordNode():
            return _record(node, scope)
        case Access():
            return _access(node, scope)
        case CallNode():
            return _call(node, scope)
        case Unary():
            operand = term_of(node.operand, scope)
            symbols = tuple(symbol.text for symbol in reversed(node.operators))
            return None if operand is None else UnaryOf(symbols, operand, node.span)
        case BinaryNode():
            return _binary(node, scope)
        case Present():
            return _present(node, scope)
        case Merge():
            of, spec = (_of_record("merge", part, scope) for part in (node.of, node.spec))
            return None if of is None or spec is None else MergeOf(of, spec, node.span)
        case Patch():
            return _patch(node, scope)
        case Bytes():
            return _bytes(node, scope)
        case Reference():
            return scope.local(node.path)
        case MatchNode() | ForNode() | LetNode() | EmitNode() | DropNode() | RecurNode():
            return scope.further(node)
        case Literal() | Unsupported():
            return None


def _terms(nodes: Sequence[Expr], scope: TermScope) -> list[Term] | None:
    terms = [term_of(node, scope) for node in nodes]
    found = [term for term in terms if term is not None]
    return found if len(found) == len(terms) else None


def _text(node: Text, scope: TermScope) -> Term | None:
    parts = [part if isinstance(part, str) else term_of(part, scope) for part in node.parts]
    found = [part for part in parts if part is not None]
    return TextOf(tuple(found), node.span) if len(found) == len(parts) else None


def _record(node: RecordNode, scope: TermScope) -> Term | None:
    _check_keys(node, scope)
    keys = _terms([field.key for field in node.fields], scope)
    values = _terms([field.value for field in node.fields], scope)
    if keys is None or values is None:
        return None
    return RecordOf(tuple(zip(keys, values, strict=True)), node.span)


def _check_keys(node: RecordNode, scope: TermScope) -> None:
    """Reports a key that stands twice, of keys that are plain text."""
    seen: set[str] = set()
    for field in node.fields:
        key = "".join(part for part in field.key.parts if isinstance(part, str))
        if not depends_on_event(field.key, scope) and key in seen:
            report_doubled(field.key, key, scope)
        seen.add(key)


# ---- paths


def _access(node: Access, scope: TermScope) -> Term | None:
    # `args.a[event.b]`: `args.a` is evaluated at load, so a mistake in it is found there
    fixed = 0
    while not depends_on_event(node.of, scope) and not segment_depends_on_event(node.segments[fixed], scope):
        fixed += 1
    of = term_of(Access(node.of, node.segments[:fixed], node.span) if fixed else node.of, scope)
    steps = [_step(segment, node, scope) for segment in node.segments[fixed:]]
    found = [step for step in steps if step is not None]
    return None if of is None or len(found) < len(steps) else ReadPath(of, tuple(found), node.span)


def _step(segment: Segment, node: Access, scope: TermScope) -> KeyStep | KeyBy | TextPart | None:
    path = shown(node.span)
    if isinstance(segment, Name):
        return KeyStep(segment.text, paths.PathStep(segment.text, path))
    step = paths.PathStep(shown(segment.span), path)
    if isinstance(segment, SliceNode):
        begin, end = (_bound(bound, scope) for bound in (segment.begin, segment.end))
        return None if begin is None or end is None else TextPart(begin, end, step)
    if depends_on_event(segment, scope):
        key = term_of(segment, scope)
        return None if key is None else KeyBy(key, step)
    constant = fold(segment, scope)
    if constant is None:
        return None
    if not isinstance(constant.value, str | int) or not paths.is_key(constant.value):
        scope.report(error(paths.NO_KEY, segment.span))
        return None
    return KeyStep(constant.value, step)


def _bound(node: Expr, scope: TermScope) -> Term | None:
    term = term_of(node, scope)
    if isinstance(term, Const) and not paths.is_index(term.value):
        scope.report(error(paths.NO_BOUND, node.span))
        return None
    return term


def _present(node: Present, scope: TermScope) -> Term | None:
    root = node.of.of if isinstance(node.of, Access) else node.of
    if isinstance(root, Reference) and not scope.local(root.path) and not scope.has_constant(root.path):
        warn_of_unknown(node, root, scope)
        return Const(not node.wanted, node.span)
    if not isinstance(node.of, Root | Reference | Access):
        report_no_path(node, scope)
        return None
    of = term_of(node.of, scope)
    return None if of is None else PresentOf(node.wanted, of, node.span)


# ---- calls and operators


def _call(node: CallNode, scope: TermScope) -> Term | None:
    written = scope.written(node.function)
    if written is not None:
        return _invoked(written, node, scope)
    function = callee(node, scope)
    if function is None:
        return None
    if function.when == "window":
        return scope.aggregate(node, function)
    arguments = [_argument(function, at, node, scope) for at in range(len(node.arguments))]
    found = [argument for argument in arguments if argument is not None]
    if len(found) < len(arguments):
        return None
    return CallOf(spelled(node.function), function, tuple(found), node.span)


def _invoked(function: FunctionOf, node: CallNode, scope: TermScope) -> Term | None:
    given = len(node.arguments)
    arguments = _terms(node.arguments, scope)
    if not function.takes(given):
        message = f"`{spelled(node.function)}` takes {arity(function.least, function.variadic)}, not {given}"
        scope.report(error(message, node.span))
        return None
    if arguments is None:
        return None
    return InvokeOf(function, passed(arguments, function.least, function.variadic, node.span), node.span)


def arity(least: int, variadic: bool) -> str:
    return f"{'at least ' if variadic else ''}{count_of('argument', least)}"


def passed(arguments: Sequence[Term], least: int, variadic: bool, span: Span) -> tuple[Term, ...]:
    """The arguments as the function takes them: further ones as an array."""
    return (*arguments[:least], ArrayOf(tuple(arguments[least:]), span)) if variadic else tuple(arguments)


def count_of(what: str, number: int) -> str:
    """`2 arguments`"""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _argument(function: Function, at: int, node: CallNode, scope: TermScope) -> Argument | None:
    argument = node.arguments[at]
    if depends_on_event(argument, scope):
        term = term_of(argument, scope)
        return None if term is None else _taken(term, function.parameter(at))
    constant = given(function, at, node, scope)
    return None if constant is None else Argument(Const(constant.value, argument.span), None)


def _taken(term: Term, parameter: Parameter) -> Argument:
    kind = parameter.kind
    if not kind.types and kind.read is None:
        return Argument(term, None)
    return Argument(term, parameter.take, kind.types[0] if len(kind.types) == 1 and kind.read is None else None)


def _binary(node: BinaryNode, scope: TermScope) -> Term | None:
    operands = _terms([node.first, *(operand for _, operand in node.rest)], scope)
    if operands is None:
        return None
    first, *others = operands
    symbols = [symbol.text for symbol, _ in node.rest]
    return BinaryOf(first, tuple(zip(symbols, others, strict=True)), node.span)


# ---- values from other values


def _of_record(word: str, node: Expr, scope: TermScope) -> Term | None:
    if depends_on_event(node, scope):
        return term_of(node, scope)
    constant = record(word, node, scope)
    return None if constant is None else Const(constant.value, node.span)


def _patch(node: Patch, scope: TermScope) -> Term | None:
    of = _of_record("patch", node.of, scope)
    changes = [_change(operation, scope) for operation in node.operations]
    found = [change for change in changes if change is not None]
    return None if of is None or len(found) < len(changes) else PatchOf(of, tuple(found), node.span)


def _change(node: Operation, scope: TermScope) -> Change | None:
    key = None if node.key is None else term_of(node.key, scope)
    value = None
    if node.value is not None:
        takes_record = node.word == "merge" or node.key is None
        value = _of_record(node.word, node.value, scope) if takes_record else term_of(node.value, scope)
    if (node.key is not None and key is None) or (node.value is not None and value is None):
        return None
    return Change(node.word, key, value)


def _bytes(node: Bytes, scope: TermScope) -> Term | None:
    puts = [put(field, scope) for field in node.fields]
    values = [term_of(field.value, scope) for field in node.fields]
    pairs = [(value, how) for value, how in zip(values, puts, strict=True) if value is not None and how is not None]
    return PackOf(tuple(pairs), node.span) if len(pairs) == len(puts) else None
