"""Constants -> a constant, at load: what is known before any event comes is evaluated once,
and each part keeps its place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from walflow.compile.constant import Constant, ConstantPart, derived
from walflow.compile.nodes import Name
from walflow.compile.scope import Scope
from walflow.diagnostics import Hidden, Span, all_hidden, did_you_mean, error, hides
from walflow_kernel import bits, paths, records
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.functions import Function
from walflow_kernel.moment import Moment
from walflow_kernel.operators import binary, unary
from walflow_kernel.text import joined, spliced
from walflow_kernel.values import TOO_DEEP, kind_of

T = TypeVar("T")

LONGEST_SHOWN: Final = 60  # characters of an expression in a message


def attempt(make: Callable[[], T], span: Span, scope: Scope, what: str = "") -> T | None:
    """None: it has no value, and the reason was reported."""
    try:
        return make()
    except CannotEvaluate as refused:
        scope.report(error(f"{what}{refused}", span))
    except RecursionError:  # for values that `json::decode` has made
        scope.report(error(f"{what}{TOO_DEEP}", span))
    return None


def concealed(made: T, *of: object) -> T:
    """What was made of a secret is one too."""
    return cast("T", all_hidden(made)) if any(map(hides, of)) else made


def plain(value: Any) -> Any:
    """Functions and operators know texts by their exact type."""
    if not hides(value):
        return value
    if isinstance(value, dict):
        return {key: plain(one) for key, one in cast("dict[object, Any]", value).items()}
    return str(value) if isinstance(value, Hidden) else [plain(one) for one in value]


def shown(span: Span) -> str:
    """The text of an expression, for a message."""
    text = " ".join(span.text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


# ---- what each kind of expression makes of constants


def interpolated(part: Constant, span: Span, scope: Scope) -> str | None:
    return attempt(lambda: concealed(spliced(plain(part.value)), part.value), span, scope)


def text(parts: Sequence[str], span: Span, scope: Scope) -> Constant | None:
    hidden = any(isinstance(part, Hidden) for part in parts)
    return attempt(lambda: Constant((Hidden if hidden else str)(joined(list(parts))), span), span, scope)


def array(items: Sequence[Constant], span: Span) -> Constant:
    parts: dict[str | int, ConstantPart] = {at: ConstantPart(item.span, item) for at, item in enumerate(items)}
    return Constant([item.value for item in items], span, parts)


def record(fields: Sequence[tuple[Constant, Constant]], span: Span) -> Constant:
    parts: dict[str | int, ConstantPart] = {}
    for key, value in fields:
        assert isinstance(key.value, str)
        parts[key.value] = ConstantPart(key.span, value)
    return Constant({key: part.constant.value for key, part in parts.items()}, span, parts)


def args_record(args: Mapping[str, Constant | None], span: Span) -> Constant:
    parts: dict[str | int, ConstantPart] = {
        name: ConstantPart(arg.span, arg) for name, arg in args.items() if arg is not None
    }
    return Constant({name: part.constant.value for name, part in parts.items()}, span, parts)


def member(of: Constant, key: object, span: Span, scope: Scope) -> Constant | None:
    if has_member(of, key):
        parts = of.parts
        return attempt(lambda: parts[cast("str | int", key)].constant, span, scope)
    known = [str(name) for name in of.parts] if of.is_record else []
    scope.report(error(f"{kind_of(of.value)} without `{key}`", span, did_you_mean(str(key), known)))
    return None


def has_member(of: Constant, key: object) -> bool:
    return isinstance(key, str | int) and not isinstance(key, bool) and key in of.parts


def cut(of: Constant, bounds: Any, span: Span, scope: Scope) -> Constant | None:
    found = paths.cut(of.value, *bounds)
    if found is None:
        scope.report(error(f"{kind_of(of.value)} without `{shown(span)}`", span))
        return None
    begin, end = bounds
    parts: dict[str | int, ConstantPart] = {at - begin: of.parts[at] for at in range(begin, end)}
    return Constant(found, span, parts)


def has_part(of: Constant, bounds: Any) -> bool:
    return paths.cut(of.value, *bounds) is not None


def taken(function: Function, at: int, name: str, constant: Constant, span: Span, scope: Scope) -> Constant | None:
    """The value that the function `name` gets for its argument, which stands at `span`."""
    take = function.parameter(at).take

    def made() -> Constant:
        return replace(constant, value=concealed(take(plain(constant.value)), constant.value))

    return attempt(made, span, scope, f"`{name}`: ")


def called(
    function: Function, name: str, moment: Moment | None, arguments: Sequence[Constant], span: Span, scope: Scope
) -> Constant | None:
    """`moment`: for a function that depends on time or chance."""
    values = [argument.value for argument in arguments]

    def made() -> Constant:
        result = function.apply(*(() if moment is None else (moment,)), *map(plain, values))
        return derived(concealed(result, *values), span)

    return attempt(made, span, scope, f"`{name}`: ")


def negated(symbols: Sequence[Name], operand: Constant, span: Span, scope: Scope) -> Constant | None:
    """`symbols`: the last one is next to the operand."""
    found: Constant | None = operand
    for symbol in reversed(symbols):
        if found is None:
            return None
        found = attempt(partial(_negated, symbol.text, found.value, span), symbol.span, scope)
    return found


def _negated(symbol: str, value: object, span: Span) -> Constant:
    return Constant(unary(symbol, value), span)


def combined(first: Constant, rest: Sequence[tuple[Name, Constant]], span: Span, scope: Scope) -> Constant | None:
    found: Constant | None = first
    for symbol, operand in rest:
        if found is None:
            return None
        found = attempt(partial(_combined, symbol.text, found.value, operand.value, span), symbol.span, scope)
    return found


def _combined(symbol: str, left: object, right: object, span: Span) -> Constant:
    return Constant(concealed(binary(symbol, plain(left), plain(right)), left, right), span)


def merged(of: Constant, spec: Constant, span: Span, scope: Scope) -> Constant | None:
    return attempt(lambda: derived(records.merged(of.value, spec.value), span), span, scope)


def patched(
    of: Constant, changes: Sequence[tuple[str, Constant | None, Constant | None]], span: Span, scope: Scope
) -> Constant | None:
    """Each change: its word, its key, its value."""

    def made() -> Constant:
        found = records.record_of("patch", of.value).copy()
        for word, key, value in changes:
            change = records.change(word, None if key is None else str(key.value))
            change(found, None if value is None else value.value)
        return derived(found, span)

    return attempt(made, span, scope)


def packed(fields: Sequence[tuple[Constant, bits.Put]], span: Span, scope: Scope) -> Constant | None:
    return attempt(lambda: derived(bits.packed([put(one.value) for one, put in fields]), span), span, scope)
