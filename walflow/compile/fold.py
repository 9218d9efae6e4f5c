"""Expression -> constant, at load: everything in a configuration is known before anything starts."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from walflow.compile.constant import Constant, ConstantPart, derived
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
    Packed,
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
from walflow.compile.scope import Scope
from walflow.diagnostics import Diagnostic, Hidden, Span, all_hidden, did_you_mean, error, hides, one_of
from walflow.warnings import warning
from walflow.warnings.unknown_name import UNKNOWN_NAME
from walflow_kernel import bits, paths, records
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.functions import Function
from walflow_kernel.operators import binary, unary
from walflow_kernel.text import joined, spliced
from walflow_kernel.values import TOO_DEEP, kind_of

T = TypeVar("T")

LONGEST_SHOWN: Final = 60  # characters of an expression in a message


def fold(node: Expr, scope: Scope) -> Constant | None:
    """None: it has no value. All reasons are reported, not only the first."""
    match node:
        case Literal():
            return Constant(node.value, node.span)
        case Text():
            return _text(node, scope)
        case Array():
            return _array(node, scope)
        case RecordNode():
            return _record(node, scope)
        case Reference():
            return scope.constant(node.path)
        case Root():
            return _root(node, scope)
        case Access():
            return _access(node, scope)
        case CallNode():
            return _call(node, scope)
        case Unary():
            return _unary(node, scope)
        case BinaryNode():
            return _binary(node, scope)
        case Present():
            return _present(node, scope)
        case Merge():
            return _merge(node, scope)
        case Patch():
            return _patch(node, scope)
        case Bytes():
            return _bytes(node, scope)
        case MatchNode() | ForNode():
            return scope.evaluated(node)
        case LetNode() | EmitNode() | DropNode() | RecurNode():
            word = shown(node.span).split()[0].split("(")[0]
            scope.report(error(f"`{word}` is not supported in what is worked out before any event comes", node.span))
            return None
        case Unsupported():
            return None


def _text(node: Text, scope: Scope) -> Constant | None:
    parts = [part if isinstance(part, str) else _interpolated(part, scope) for part in node.parts]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    hides = any(isinstance(part, Hidden) for part in found)
    return attempt(lambda: Constant((Hidden if hides else str)(joined(found)), node.span), node.span, scope)


def _interpolated(part: Expr, scope: Scope) -> str | None:
    constant = fold(part, scope)
    if constant is None:
        return None
    return attempt(lambda: concealed(spliced(plain(constant.value)), constant.value), part.span, scope)


def concealed(made: T, *of: object) -> T:
    """What was made of a secret is one too."""
    return cast("T", all_hidden(made)) if any(map(hides, of)) else made


def attempt(make: Callable[[], T], span: Span, scope: Scope, what: str = "") -> T | None:
    """None: it has no value, and the reason was reported."""
    try:
        return make()
    except CannotEvaluate as refused:
        scope.report(error(f"{what}{refused}", span))
    except RecursionError:  # for values that `json::decode` has made
        scope.report(error(f"{what}{TOO_DEEP}", span))
    return None


def _array(node: Array, scope: Scope) -> Constant | None:
    items = [fold(item, scope) for item in node.items]
    found = [item for item in items if item is not None]
    if len(found) < len(items):
        return None
    parts: dict[str | int, ConstantPart] = {at: ConstantPart(item.span, item) for at, item in enumerate(found)}
    return Constant([item.value for item in found], node.span, parts)


def _record(node: RecordNode, scope: Scope) -> Constant | None:
    fields = [(field, fold(field.key, scope), fold(field.value, scope)) for field in node.fields]
    parts: dict[str | int, ConstantPart] = {}
    for field, key, value in fields:
        if key is None or value is None:
            continue
        assert isinstance(key.value, str)
        if key.value in parts:
            report_doubled(field.key, key.value, scope)
        parts[key.value] = ConstantPart(key.span, value)
    if any(key is None or value is None for _, key, value in fields):
        return None
    return Constant({key: part.constant.value for key, part in parts.items()}, node.span, parts)


def report_doubled(written: Expr, key: str, scope: Scope) -> None:
    scope.report(error(f"the key `{key}` stands twice in this record", written.span))


def _root(node: Root, scope: Scope) -> Constant | None:
    if node.word != "args":
        hint = f"an environment variable is `env.{shown(node.span)[1:]}`" if node.word == "$" else None
        scope.report(not_at_load(node.word, node.span)._replace(hint=hint))
        return None
    args = scope.args(node)
    if args is None:
        return None
    parts: dict[str | int, ConstantPart] = {
        name: ConstantPart(arg.span, arg) for name, arg in args.items() if arg is not None
    }
    return Constant({name: part.constant.value for name, part in parts.items()}, node.span, parts)


def not_at_load(shown: str, span: Span) -> Diagnostic:
    return error(f"`{shown}` has no value here: what is configured is worked out before any event comes", span)


def _access(node: Access, scope: Scope) -> Constant | None:
    if isinstance(node.of, Root) and node.of.word == "args" and isinstance(node.segments[0], Name):
        found, rest = _arg(node.of, node.segments[0], scope), node.segments[1:]
    else:
        found, rest = fold(node.of, scope), node.segments
    for segment in rest:
        if found is None:
            return None
        found = _member(found, segment, scope)
    return found


def _arg(root: Root, name: Name, scope: Scope) -> Constant | None:
    args = scope.args(root)
    if args is None:
        return None
    if name.text not in args:
        known = f"args here: {one_of(args)}" if args else None
        hint = did_you_mean(name.text, args) or scope.args_hint() or known
        scope.report(error(f"unknown arg `{name.text}`", name.span, hint))
        return None
    return args[name.text]


def _member(of: Constant, segment: Segment, scope: Scope) -> Constant | None:
    if isinstance(segment, SliceNode):
        return _cut(of, segment, scope)
    if isinstance(segment, Name):
        key: object = segment.text
    elif (index := fold(segment, scope)) is not None:
        key = index.value
    else:
        return None
    if isinstance(key, str | int) and not isinstance(key, bool) and key in of.parts:
        parts = of.parts
        return attempt(lambda: parts[key].constant, segment.span, scope)
    known = [str(name) for name in of.parts] if of.is_record else []
    scope.report(error(f"{kind_of(of.value)} without `{key}`", segment.span, did_you_mean(str(key), known)))
    return None


def _cut(of: Constant, node: SliceNode, scope: Scope) -> Constant | None:
    bounds = _bounds(node, scope)
    if bounds is None:
        return None
    found = paths.cut(of.value, *bounds)
    if found is None:
        scope.report(error(f"{kind_of(of.value)} without `{shown(node.span)}`", node.span))
        return None
    parts: dict[str | int, ConstantPart] = {at - bounds[0]: of.parts[at] for at in range(*bounds)}
    return Constant(found, node.span, parts)


def _bounds(node: SliceNode, scope: Scope) -> tuple[int, int] | None:
    begin, end = _bound(node.begin, scope), _bound(node.end, scope)
    return None if begin is None or end is None else (begin, end)


def _bound(node: Expr, scope: Scope) -> int | None:
    bound = fold(node, scope)
    if bound is None:
        return None
    if not isinstance(bound.value, int) or not paths.is_index(bound.value):
        scope.report(error(paths.NO_BOUND, node.span))
        return None
    return bound.value


def _call(node: CallNode, scope: Scope) -> Constant | None:
    if scope.written(node.function) is not None:
        return scope.evaluated(node)
    function = callee(node, scope)
    if function is None:
        return None
    if function.when in {"event", "window"}:
        scope.report(not_at_load(f"{spelled(node.function)}()", node.span))
        return None
    arguments = [given(function, at, node, scope) for at in range(len(node.arguments))]
    found = [argument.value for argument in arguments if argument is not None]
    if len(found) < len(arguments):
        return None
    what = f"`{spelled(node.function)}`: "
    moment = () if function.when == "load" else (scope.moment(),)

    def called() -> Constant:
        made = function.apply(*moment, *map(plain, found))
        return derived(concealed(made, *found), node.span)

    return attempt(called, node.span, scope, what)


def plain(value: Any) -> Any:
    """Functions and operators know texts by their exact type."""
    if not hides(value):
        return value
    if isinstance(value, dict):
        return {key: plain(one) for key, one in cast("dict[object, Any]", value).items()}
    return str(value) if isinstance(value, Hidden) else [plain(one) for one in value]


def callee(node: CallNode, scope: Scope) -> Function | None:
    """The function, if it takes this number of arguments."""
    function = scope.function(node.function)
    if function is not None and not function.takes(len(node.arguments)):
        message = f"`{spelled(node.function)}` takes {function.arity}, not {len(node.arguments)}"
        scope.report(error(message, node.span))
        return None
    return function


def given(function: Function, at: int, node: CallNode, scope: Scope) -> Constant | None:
    """The value that the function gets for an argument that does not depend on the event."""
    constant = fold(node.arguments[at], scope)
    if constant is None:
        return None
    what = f"`{spelled(node.function)}`: "
    take = function.parameter(at).take

    def taken() -> Constant:
        return replace(constant, value=concealed(take(plain(constant.value)), constant.value))

    return attempt(taken, node.arguments[at].span, scope, what)


def _merge(node: Merge, scope: Scope) -> Constant | None:
    of, spec = record("merge", node.of, scope), record("merge", node.spec, scope)
    if of is None or spec is None:
        return None
    return attempt(lambda: derived(records.merged(of.value, spec.value), node.span), node.span, scope)


def record(word: str, node: Expr, scope: Scope) -> Constant | None:
    """A record that does not depend on the event: `word` accepts nothing else."""
    found = fold(node, scope)
    if found is not None and not isinstance(found.value, dict):
        scope.report(error(f"`{word}` takes a record, not {kind_of(found.value)}", node.span))
        return None
    return found


def _patch(node: Patch, scope: Scope) -> Constant | None:
    of = record("patch", node.of, scope)
    changes = [_change(operation, scope) for operation in node.operations]
    found = [change for change in changes if change is not None]
    if of is None or len(found) < len(changes):
        return None

    def patched() -> Constant:
        made = records.record_of("patch", of.value).copy()
        for change, value in found:
            change(made, value)
        return derived(made, node.span)

    return attempt(patched, node.span, scope)


_Change = Callable[[records.Fields, object], None]


def _change(node: Operation, scope: Scope) -> tuple[_Change, object] | None:
    key = None if node.key is None else fold(node.key, scope)
    takes_record = node.word == "merge" or node.key is None
    value = None
    if node.value is not None:
        value = record(node.word, node.value, scope) if takes_record else fold(node.value, scope)
    if (node.key is not None and key is None) or (node.value is not None and value is None):
        return None
    return records.change(node.word, None if key is None else str(key.value)), None if value is None else value.value


def _bytes(node: Bytes, scope: Scope) -> Constant | None:
    puts = [put(field, scope) for field in node.fields]
    values = [fold(field.value, scope) for field in node.fields]
    pairs = [(one, how) for one, how in zip(values, puts, strict=True) if one is not None and how is not None]
    if len(pairs) < len(puts):
        return None
    return attempt(lambda: derived(bits.packed([how(one.value) for one, how in pairs]), node.span), node.span, scope)


def put(field: Packed, scope: Scope) -> bits.Put | None:
    """How the value is stored."""
    name, size = field.type, field.size
    if name is not None and name.text == "binary":
        return bits.binary(None if size is None else size.value)
    if name is not None and name.text not in bits.TYPES:
        known = one_of([*bits.TYPES, "binary"])
        scope.report(error(f"`{name.text}` is no type of binary data", name.span, f"there are {known}"))
        return None
    width = 8 if size is None else size.value
    signed, little = bits.TYPES[name.text] if name else (False, False)
    if size is not None and not 0 < width <= bits.WIDEST:
        scope.report(error(f"a number has 1 to {bits.WIDEST} bits, not {width}", size.span))
        return None
    if size is not None and little and width > 8 and width % 8:
        scope.report(error(f"a little-endian number has whole bytes, not {width} bits", size.span))
        return None
    return bits.number(width, signed=signed, little=little)


def shown(span: Span) -> str:
    """The text of an expression, for a message."""
    text = " ".join(span.text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _unary(node: Unary, scope: Scope) -> Constant | None:
    found = fold(node.operand, scope)
    for symbol in reversed(node.operators):
        if found is None:
            return None
        found = attempt(partial(_negated, symbol.text, found.value, node.span), symbol.span, scope)
    return found


def _negated(symbol: str, value: object, span: Span) -> Constant:
    return Constant(unary(symbol, value), span)


def _binary(node: BinaryNode, scope: Scope) -> Constant | None:
    operands = [fold(node.first, scope), *(fold(operand, scope) for _, operand in node.rest)]
    found: Constant | None = operands[0]
    if None in operands:
        return None
    for (symbol, _), operand in zip(node.rest, operands[1:], strict=True):
        if found is None or operand is None:
            return None
        found = attempt(partial(_applied, symbol.text, found.value, operand.value, node.span), symbol.span, scope)
    return found


def _applied(symbol: str, left: object, right: object, span: Span) -> Constant:
    return Constant(concealed(binary(symbol, plain(left), plain(right)), left, right), span)


def _present(node: Present, scope: Scope) -> Constant | None:
    of = node.of
    root, segments = (of.of, of.segments) if isinstance(of, Access) else (of, ())
    if isinstance(root, Reference) and not scope.has_constant(root.path):
        warn_of_unknown(node, root, scope)
        return Constant(not node.wanted, node.span)
    if not isinstance(of, Root | Reference | Access):
        report_no_path(node, scope)
        return None
    found = fold(root, scope)
    for segment in segments:
        if found is None:
            return None
        reached, found = _reached(found, segment, scope)
        if not reached:
            return Constant(not node.wanted, node.span)
    return None if found is None else Constant(node.wanted, node.span)


def _reached(of: Constant, segment: Segment, scope: Scope) -> tuple[bool, Constant | None]:
    """Whether the path leads to a value. None beside True: it is not known, and the reason was reported."""
    if isinstance(segment, SliceNode):
        bounds = _bounds(segment, scope)
        reached = bounds is None or paths.cut(of.value, *bounds) is not None
        return reached, None if bounds is None or not reached else _cut(of, segment, scope)
    key = Constant(segment.text, segment.span) if isinstance(segment, Name) else fold(segment, scope)
    if key is None:
        return True, None
    if not isinstance(key.value, str | int) or isinstance(key.value, bool) or key.value not in of.parts:
        return False, None
    return True, of.parts[key.value].constant


def warn_of_unknown(node: Present, root: Reference, scope: Scope) -> None:
    """`present name`, where nothing that comes before has the name."""
    value = "false" if node.wanted else "true"
    message = f"nothing has the name `{spelled(root.path)}` here: `{shown(node.span)}` is {value} for each event"
    scope.report(warning(UNKNOWN_NAME, message, root.span))


def report_no_path(node: Present, scope: Scope) -> None:
    word = "present" if node.wanted else "absent"
    scope.report(error(f"`{word}` takes a path", node.span, f"write `{word} event.key`"))
