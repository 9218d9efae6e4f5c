"""Expression as written -> a term, once: names are looked up, what is known at load is evaluated, mistakes are
reported.

`lower` goes from the parts to the whole. Of parts that are all constants it makes a constant (`folding`), so `1 / 0`
is an error of the file and not of each event; of others a term. Whether an expression depends on the event is what
came of its parts.

Where there is no event, as in a configuration, everything is known at load or has no value: the scope says so
(`LoadScope`).
"""

import typing
from collections.abc import Sequence

from walflow.compile import folding
from walflow.compile.constant import Constant
from walflow.compile.folding import shown
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
from walflow.compile.scope import LoadScope, Lowered, Scope
from walflow.diagnostics import Diagnostic, Span, did_you_mean, error, one_of
from walflow.warnings import warning
from walflow.warnings.unknown_name import UNKNOWN_NAME
from walflow_kernel import bits, paths
from walflow_kernel.functions import Function, Parameter
from walflow_kernel.values import kind_of

Bounds = tuple[Lowered, Lowered]  # of a slice


def lower(node: Expr, scope: Scope) -> Lowered | None:
    """None: it has no value. All reasons are reported, not only the first."""
    stand_in = scope.instead(node)
    if stand_in is not None:
        return stand_in
    match node:
        case Literal():
            return Constant(node.value, node.span)
        case Reference():
            return scope.local(node.path) or scope.constant(node.path)
        case Root():
            return _root(node, scope)
        case Access():
            return _access(node, scope)
        case Text():
            return _text(node, scope)
        case Array():
            return _array(node, scope)
        case RecordNode():
            return _record(node, scope)
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
        case MatchNode() | ForNode() | LetNode() | EmitNode() | DropNode() | RecurNode():
            return scope.further(node)
        case Unsupported():
            return None


def term_of(node: Expr, scope: Scope) -> Term | None:
    found = lower(node, scope)
    return None if found is None else _term(found, node.span)


def fold(node: Expr, scope: LoadScope) -> Constant | None:
    """Of an expression of a configuration: everything in it is known before anything starts."""
    found = lower(node, scope)
    assert found is None or isinstance(found, Constant)
    return found


def _term(found: Lowered, span: Span) -> Term:
    return Const(found.value, span) if isinstance(found, Constant) else found


def _lowered(nodes: Sequence[Expr], scope: Scope) -> list[Lowered] | None:
    found = [lower(node, scope) for node in nodes]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _constants(found: Sequence[Lowered]) -> list[Constant] | None:
    """None: not all of them are known at load."""
    constants = [one for one in found if isinstance(one, Constant)]
    return constants if len(constants) == len(found) else None


def _terms(found: Sequence[Lowered], nodes: Sequence[Expr]) -> tuple[Term, ...]:
    return tuple(_term(one, node.span) for one, node in zip(found, nodes, strict=True))


# ---- texts, arrays, records


def _text(node: Text, scope: Scope) -> Lowered | None:
    found = [part if isinstance(part, str) else lower(part, scope) for part in node.parts]
    if any(one is not None and not isinstance(one, str | Constant) for one in found):
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        spans = [node.span if isinstance(part, str) else part.span for part in node.parts]
        pairs = zip(known, spans, strict=True)
        return TextOf(tuple(one if isinstance(one, str) else _term(one, span) for one, span in pairs), node.span)
    parts = [
        folding.interpolated(one, part.span, scope)
        if isinstance(one, Constant) and not isinstance(part, str)
        else one
        for one, part in zip(found, node.parts, strict=True)
    ]
    texts = [part for part in parts if isinstance(part, str)]
    return folding.text(texts, node.span, scope) if len(texts) == len(parts) else None


def _array(node: Array, scope: Scope) -> Lowered | None:
    items = _lowered(node.items, scope)
    if items is None:
        return None
    constants = _constants(items)
    return ArrayOf(_terms(items, node.items), node.span) if constants is None else folding.array(constants, node.span)


def _record(node: RecordNode, scope: Scope) -> Lowered | None:
    found = [(field, lower(field.key, scope), lower(field.value, scope)) for field in node.fields]
    seen: set[object] = set()
    for field, key, _ in found:
        if isinstance(key, Constant):
            if key.value in seen:
                scope.report(error(f"the key `{key.value}` stands twice in this record", field.key.span))
            seen.add(key.value)
    pairs = [(key, value) for _, key, value in found if key is not None and value is not None]
    if len(pairs) < len(found):
        return None
    constants = [(key, value) for key, value in pairs if isinstance(key, Constant) and isinstance(value, Constant)]
    if len(constants) == len(pairs):
        return folding.record(constants, node.span)
    spans = [(field.key.span, field.value.span) for field in node.fields]
    fields = [(_term(key, at), _term(value, to)) for (key, value), (at, to) in zip(pairs, spans, strict=True)]
    return RecordOf(tuple(fields), node.span)


# ---- paths


def _root(node: Root, scope: Scope) -> Lowered | None:
    # in a function with `...`, `args` are the further arguments
    if node.word != "args" or scope.local((Name("args", node.span),)) is not None:
        return scope.root(node)
    args = scope.args(node)
    return None if args is None else folding.args_record(args, node.span)


def _access(node: Access, scope: Scope) -> Lowered | None:
    return _followed(node, scope) or None


def _followed(node: Access, scope: Scope, *, asked: bool = False) -> Lowered | typing.Literal[False] | None:
    """`asked`: whether a path leads to a value. False: it is known at load that it does not."""
    found, taken = (lower(node.of, scope), 0) if asked else _base(node, scope)
    segments, keys = node.segments[taken:], list[Lowered | Bounds | None]()
    at_load = scope.at_load() is not None
    while isinstance(found, Constant) and segments and not keys:
        key = _key(segments[0], scope)
        if not _is_constant(key):
            keys.append(key)
        elif asked and not _has(found, key):
            further = () if at_load else [_key(segment, scope) for segment in segments[1:]]
            return False if all(key is None or _is_constant(key) for key in further) else _followed(node, scope)
        else:
            found = _member(found, segments[0], key, scope)
            segments, taken = segments[1:], taken + 1
    if not segments or (at_load and (found is None or None in keys)):
        return found if not keys else None
    keys += [_key(segment, scope) for segment in segments[len(keys) :]]
    steps = [_step(segment, key, node, scope) for segment, key in zip(segments, keys, strict=True)]
    known = [step for step in steps if step is not None]
    if found is None or len(known) < len(steps):
        return None
    # `args.a[event.b]`: `args.a` is known at load, so a mistake in it is found there
    return ReadPath(_term(found, node.span if taken else node.of.span), tuple(known), node.span)


def _base(node: Access, scope: Scope) -> tuple[Lowered | None, int]:
    """What a path begins with, and how many of its segments that has: of `args.a`, the other args do not matter."""
    root, first = node.of, node.segments[0]
    if not isinstance(root, Root) or root.word != "args" or not isinstance(first, Name):
        return lower(root, scope), 0
    if scope.local((Name("args", root.span),)) is not None:
        return lower(root, scope), 0
    args = scope.args(root)
    if args is not None and first.text not in args:
        known = f"args here: {one_of(args)}" if args else None
        hint = did_you_mean(first.text, args) or scope.args_hint() or known
        scope.report(error(f"unknown arg `{first.text}`", first.span, hint))
        return None, 1
    return None if args is None else args[first.text], 1


def _key(segment: Segment, scope: Scope) -> Lowered | Bounds | None:
    if isinstance(segment, Name):
        return Constant(segment.text, segment.span)
    if not isinstance(segment, SliceNode):
        return lower(segment, scope)
    begin, end = _bound(segment.begin, scope), _bound(segment.end, scope)
    return None if begin is None or end is None else (begin, end)


def _bound(node: Expr, scope: Scope) -> Lowered | None:
    found = lower(node, scope)
    if isinstance(found, Constant) and not paths.is_index(found.value):
        scope.report(error(paths.NO_BOUND, node.span))
        return None
    return found


def _is_constant(key: Lowered | Bounds | None) -> bool:
    return all(isinstance(one, Constant) for one in (key if isinstance(key, tuple) else (key,)))


def _known(key: Lowered | Bounds | None) -> object:
    """The value of a key that is known at load, or the two of a slice."""
    if isinstance(key, tuple):
        return tuple(one.value for one in key if isinstance(one, Constant))
    assert isinstance(key, Constant)
    return key.value


def _has(of: Constant, key: Lowered | Bounds | None) -> bool:
    return folding.has_part(of, _known(key)) if isinstance(key, tuple) else folding.has_member(of, _known(key))


def _member(of: Constant, segment: Segment, key: Lowered | Bounds | None, scope: Scope) -> Constant | None:
    folded = folding.cut if isinstance(key, tuple) else folding.member
    return folded(of, _known(key), segment.span, scope)


def _step(
    segment: Segment, key: Lowered | Bounds | None, node: Access, scope: Scope
) -> KeyStep | KeyBy | TextPart | None:
    path = shown(node.span)
    if isinstance(segment, Name):
        return KeyStep(segment.text, paths.PathStep(segment.text, path))
    if key is None:
        return None
    step = paths.PathStep(shown(segment.span), path)
    if isinstance(segment, SliceNode):
        assert isinstance(key, tuple)
        return TextPart(_term(key[0], segment.begin.span), _term(key[1], segment.end.span), step)
    assert not isinstance(key, tuple)
    if not isinstance(key, Constant):
        return KeyBy(key, step)
    if not isinstance(key.value, str | int) or not paths.is_key(key.value):
        scope.report(error(paths.NO_KEY, segment.span))
        return None
    return KeyStep(key.value, step)


def _present(node: Present, scope: Scope) -> Lowered | None:
    root = node.of.of if isinstance(node.of, Access) else node.of
    if isinstance(root, Reference) and not scope.local(root.path) and not scope.has_constant(root.path):
        _warn_of_unknown(node, root, scope)
        return Constant(not node.wanted, node.span)
    if not isinstance(node.of, Root | Reference | Access):
        word = "present" if node.wanted else "absent"
        scope.report(error(f"`{word}` takes a path", node.span, f"write `{word} event.key`"))
        return None
    of: Lowered | typing.Literal[False] | None = scope.instead(node.of)
    if of is None:
        of = _followed(node.of, scope, asked=True) if isinstance(node.of, Access) else lower(node.of, scope)
    if of is None:
        return None
    if of is False or isinstance(of, Constant):
        return Constant((of is not False) == node.wanted, node.span)
    return PresentOf(node.wanted, of, node.span)


def _warn_of_unknown(node: Present, root: Reference, scope: Scope) -> None:
    """`present name`, where nothing that comes before has the name."""
    value = "false" if node.wanted else "true"
    message = f"nothing has the name `{spelled(root.path)}` here: `{shown(node.span)}` is {value} for each event"
    scope.report(warning(UNKNOWN_NAME, message, root.span))


# ---- calls and operators


def _call(node: CallNode, scope: Scope) -> Lowered | None:
    at_load = scope.at_load()
    written = scope.written(node.function)
    if written is not None:
        return _invoked(written, node, scope) if at_load is None else at_load.evaluated(node)
    function = _callee(node, scope)
    if function is None:
        return None
    name = spelled(node.function)
    if function.when == "window":
        return scope.aggregate(node, function)
    if function.when == "event" and at_load is not None:
        scope.report(not_at_load(f"{name}()", node.span))
        return None
    arguments = [argument_of(function, at, node, lower(one, scope), scope) for at, one in enumerate(node.arguments)]
    found = [argument for argument in arguments if argument is not None]
    if len(found) < len(arguments):
        return None
    constants = _constants(found)
    if constants is not None and function.when == "load":
        return folding.called(function, name, None, constants, node.span, scope)
    if constants is not None and at_load is not None:
        return folding.called(function, name, at_load.moment(), constants, node.span, scope)
    pairs = zip(found, node.arguments, strict=True)
    taken = [_argument(one, function.parameter(at), written.span) for at, (one, written) in enumerate(pairs)]
    return CallOf(name, function, tuple(taken), node.span)


def _callee(node: CallNode, scope: Scope) -> Function | None:
    """The function, if it takes this number of arguments."""
    function = scope.function(node.function)
    if function is not None and not function.takes(len(node.arguments)):
        message = f"`{spelled(node.function)}` takes {function.arity}, not {len(node.arguments)}"
        scope.report(error(message, node.span))
        return None
    return function


def argument_of(function: Function, at: int, node: CallNode, found: Lowered | None, scope: Scope) -> Lowered | None:
    """`found`: the argument as it is written. What is known at load is what the function gets for it."""
    if not isinstance(found, Constant):
        return found
    return folding.taken(function, at, spelled(node.function), found, node.arguments[at].span, scope)


def _argument(found: Lowered, parameter: Parameter, span: Span) -> Argument:
    kind = parameter.kind
    if isinstance(found, Constant) or (not kind.types and kind.read is None):
        return Argument(_term(found, span), None)
    return Argument(found, parameter.take, kind.types[0] if len(kind.types) == 1 and kind.read is None else None)


def _invoked(function: FunctionOf, node: CallNode, scope: Scope) -> Term | None:
    given = len(node.arguments)
    arguments = _lowered(node.arguments, scope)
    if not function.takes(given):
        message = f"`{spelled(node.function)}` takes {arity(function.least, function.variadic)}, not {given}"
        scope.report(error(message, node.span))
        return None
    if arguments is None:
        return None
    terms = _terms(arguments, node.arguments)
    return InvokeOf(function, passed(terms, function.least, function.variadic, node.span), node.span)


def arity(least: int, variadic: bool) -> str:
    return f"{'at least ' if variadic else ''}{count_of('argument', least)}"


def passed(arguments: Sequence[Term], least: int, variadic: bool, span: Span) -> tuple[Term, ...]:
    """The arguments as the function takes them: further ones as an array."""
    return (*arguments[:least], ArrayOf(tuple(arguments[least:]), span)) if variadic else tuple(arguments)


def count_of(what: str, number: int) -> str:
    """`2 arguments`"""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def not_at_load(shown: str, span: Span) -> Diagnostic:
    return error(f"`{shown}` has no value here: what is configured is worked out before any event comes", span)


def _unary(node: Unary, scope: Scope) -> Lowered | None:
    operand = lower(node.operand, scope)
    if operand is None:
        return None
    if isinstance(operand, Constant):
        return folding.negated(node.operators, operand, node.span, scope)
    return UnaryOf(tuple(symbol.text for symbol in reversed(node.operators)), operand, node.span)


def _binary(node: BinaryNode, scope: Scope) -> Lowered | None:
    nodes = [node.first, *(operand for _, operand in node.rest)]
    operands = _lowered(nodes, scope)
    if operands is None:
        return None
    symbols = [symbol for symbol, _ in node.rest]
    constants = _constants(operands)
    if constants is not None:
        return folding.combined(constants[0], [*zip(symbols, constants[1:], strict=True)], node.span, scope)
    first, *others = _terms(operands, nodes)
    words = (symbol.text for symbol in symbols)
    return BinaryOf(first, tuple(zip(words, others, strict=True)), node.span)


# ---- values from other values


def _record_in(word: str, node: Expr, scope: Scope) -> Lowered | None:
    """`word` accepts a record and nothing else."""
    found = lower(node, scope)
    if isinstance(found, Constant) and not isinstance(found.value, dict):
        scope.report(error(f"`{word}` takes a record, not {kind_of(found.value)}", node.span))
        return None
    return found


def _merge(node: Merge, scope: Scope) -> Lowered | None:
    of, spec = _record_in("merge", node.of, scope), _record_in("merge", node.spec, scope)
    if of is None or spec is None:
        return None
    if isinstance(of, Constant) and isinstance(spec, Constant):
        return folding.merged(of, spec, node.span, scope)
    return MergeOf(_term(of, node.of.span), _term(spec, node.spec.span), node.span)


def _patch(node: Patch, scope: Scope) -> Lowered | None:
    of = _record_in("patch", node.of, scope)
    changes = [_change(operation, scope) for operation in node.operations]
    found = [change for change in changes if change is not None]
    if of is None or len(found) < len(changes):
        return None
    constants = [
        (word, key, value)
        for word, key, value in found
        if isinstance(key, Constant | None) and isinstance(value, Constant | None)
    ]
    if isinstance(of, Constant) and len(constants) == len(found):
        return folding.patched(of, constants, node.span, scope)
    pairs = zip(found, node.operations, strict=True)
    terms = [Change(word, _term_at(key, one.key), _term_at(value, one.value)) for (word, key, value), one in pairs]
    return PatchOf(_term(of, node.of.span), tuple(terms), node.span)


def _change(node: Operation, scope: Scope) -> tuple[str, Lowered | None, Lowered | None] | None:
    key = None if node.key is None else lower(node.key, scope)
    value = None
    if node.value is not None:
        takes_record = node.word == "merge" or node.key is None
        value = _record_in(node.word, node.value, scope) if takes_record else lower(node.value, scope)
    if (node.key is not None and key is None) or (node.value is not None and value is None):
        return None
    return node.word, key, value


def _term_at(found: Lowered | None, node: Expr | None) -> Term | None:
    return None if found is None or node is None else _term(found, node.span)


def _bytes(node: Bytes, scope: Scope) -> Lowered | None:
    puts = [_put(field, scope) for field in node.fields]
    values = [lower(field.value, scope) for field in node.fields]
    pairs = [(one, how) for one, how in zip(values, puts, strict=True) if one is not None and how is not None]
    if len(pairs) < len(puts):
        return None
    constants = [(one, how) for one, how in pairs if isinstance(one, Constant)]
    if len(constants) == len(pairs):
        return folding.packed(constants, node.span, scope)
    fields = zip(pairs, node.fields, strict=True)
    return PackOf(tuple((_term(one, field.value.span), how) for (one, how), field in fields), node.span)


def _put(field: Packed, scope: Scope) -> bits.Put | None:
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
