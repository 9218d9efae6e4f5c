"""Rules of scripts and functions, and of `match` and `for` everywhere."""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from lark import Token
from lark.tree import Meta

from walflow.compile.nodes import (
    Access,
    AnyNode,
    Array,
    ArrayPatternNode,
    BoundNode,
    CaseNode,
    DropNode,
    EmitNode,
    EqualNode,
    Expr,
    ExtractNode,
    FieldNode,
    ForCaseNode,
    ForNode,
    LetNode,
    Literal,
    MatchNode,
    Name,
    Path,
    PatternNode,
    RecordPatternNode,
    RecurNode,
    Reference,
    Text,
    TuplePatternNode,
    Unsupported,
)
from walflow.diagnostics import Span
from walflow.lang import literals
from walflow.lang.ast import Arg, DefineConst, DefineFunction, DefineScript, InputScript, Use
from walflow.lang.build.rules import TreeRules, by_rule
from walflow.warnings import warning
from walflow.warnings.written_otherwise import WRITTEN_OTHERWISE


class ScriptText(NamedTuple):
    """The statements between `script` and `end`. `whole`: all of them could be read."""

    statements: tuple[object, ...]
    whole: bool


class StateText(NamedTuple):
    begins: Expr


class Into(NamedTuple):
    start: Expr
    fold: Name | None
    span: Span


class EffectSteps(NamedTuple):
    """The statements after a `=>`."""

    steps: tuple[Expr, ...]


@by_rule
class ScriptRules(TreeRules):
    def define_script(self, meta: Meta, name: Name, *rest: object) -> DefineScript:
        args = next((cast("tuple[Arg, ...]", one) for one in rest if type(one) is tuple), ())
        state = next((one.begins for one in rest if isinstance(one, StateText)), None)
        inputs = tuple(one for one in rest if isinstance(one, InputScript))
        text = next((one for one in rest if isinstance(one, ScriptText)), ScriptText((), whole=False))
        return defined(name, args, state, inputs, text, self._span(meta))

    def script_file(self, meta: Meta, *statements: object) -> ScriptText:
        return self.script(meta, *statements)

    def script_state(self, _meta: Meta, begins: Expr) -> StateText:
        return StateText(begins)

    def named_script(self, _meta: Meta, port: Name, text: ScriptText) -> InputScript:
        return InputScript(port, *_divided(text))

    def script(self, _meta: Meta, *statements: object) -> ScriptText:
        flat: list[object] = []
        for one in statements:
            flat += cast("list[object]", one) if isinstance(one, list) else [one]
        return ScriptText(tuple(flat), not any(isinstance(one, Token | Unsupported) for one in flat))

    def effects(self, _meta: Meta, *steps: Expr) -> EffectSteps:
        return EffectSteps(steps)

    def let(self, meta: Meta, path: Expr, value: Expr) -> LetNode:
        return LetNode(path, value, self._span(meta))

    def emit(self, meta: Meta, *parts: Expr | None) -> EmitNode:
        # without a value, the port is the only child
        value = parts[0] if len(parts) == 2 else None
        return EmitNode(value, cast("Text | None", parts[-1]), self._span(meta))

    def drop(self, meta: Meta) -> DropNode:
        return DropNode(self._span(meta))

    # ---- functions

    def intrinsic(self, meta: Meta, name: Name, *rest: object) -> DefineFunction:
        return DefineFunction(name, cast("Path", rest[-1]), self._span(meta))

    def function(self, meta: Meta, name: Name, *rest: object) -> DefineFunction:
        parameters = tuple(one for one in rest if isinstance(one, Name))
        variadic = any(isinstance(one, Token) for one in rest)
        cases = tuple(one for one in rest if isinstance(one, CaseNode))
        body = tuple(
            cast("Expr", one) for one in rest if one is not None and not isinstance(one, Name | Token | CaseNode)
        )
        if cases:
            arguments = Array(tuple(Reference((one,), one.span) for one in parameters), name.span)
            body = (MatchNode(arguments, tuple(_renamed(case, parameters) for case in cases), self._span(meta)),)
        self._distinct("parameter", parameters)
        return DefineFunction(name, None, self._span(meta), parameters, variadic, body)

    def function_case(self, meta: Meta, *parts: object) -> CaseNode:
        *patterns, guard, effects = parts
        found = tuple(cast("PatternNode", one) for one in patterns)
        whole: PatternNode = TuplePatternNode(found, open=False, span=self._span(meta))
        return CaseNode(
            BoundNode(Name(_MADE, whole.span), whole, whole.span) if any(map(_extracts, found)) else whole,
            cast("Expr | None", guard),
            cast("EffectSteps", effects).steps,
            self._span(meta),
        )

    def function_default(self, meta: Meta, effects: EffectSteps) -> CaseNode:
        return CaseNode(None, None, effects.steps, self._span(meta))

    def recur(self, meta: Meta, *arguments: Expr | None) -> RecurNode:
        return RecurNode(tuple(one for one in arguments if one is not None), self._span(meta))

    # ---- match

    def match(self, meta: Meta, of: Expr, *cases: CaseNode) -> MatchNode:
        return MatchNode(of, cases, self._span(meta))

    match_effect = match

    def match_case(self, meta: Meta, *parts: object) -> CaseNode:
        if not isinstance(parts[0], PatternNode):
            return CaseNode(None, None, _steps(parts), self._span(meta))
        pattern, guard, *steps = parts
        return CaseNode(cast("PatternNode", pattern), cast("Expr | None", guard), _steps(steps), self._span(meta))

    match_effect_case = match_case

    def when(self, _meta: Meta, condition: Expr) -> Expr:
        return condition

    def pattern(self, meta: Meta, *parts: "Expr | PatternNode | Name") -> PatternNode:
        if not parts:
            return AnyNode(self._span(meta))
        if isinstance(parts[0], Name):
            return BoundNode(parts[0], cast("PatternNode", parts[1]), self._span(meta))
        return _pattern(parts[0], self._span(meta))

    element_pattern = pattern

    def record_pattern(self, meta: Meta, *fields: FieldNode | None) -> RecordPatternNode:
        return RecordPatternNode(tuple(field for field in fields if field is not None), self._span(meta))

    def array_pattern(self, meta: Meta, *items: PatternNode | None) -> ArrayPatternNode:
        return ArrayPatternNode(tuple(item for item in items if item is not None), self._span(meta))

    def tuple_pattern(self, meta: Meta, *items: "PatternNode | Token | None") -> TuplePatternNode:
        found = tuple(item for item in items if item is not None and not isinstance(item, Token))
        return TuplePatternNode(found, any(isinstance(item, Token) for item in items), self._span(meta))

    def field_pattern(self, meta: Meta, *parts: object) -> FieldNode:
        names = [one for one in parts if isinstance(one, Name)]
        word = next((str(one) for one in parts if isinstance(one, Token)), "~=")
        last = parts[-1]
        test = None if isinstance(last, Name | Token) else cast("Expr | PatternNode", last)
        store = names[0] if len(names) == 2 else None
        return FieldNode(names[-1], word, test, store, self._span(meta))

    def extractor(self, meta: Meta, name: Name, argument: Token) -> ExtractNode:
        return ExtractNode(name, literals.extractor(str(argument)[1:-1]), self._span(meta))

    # ---- for

    def for_each(self, meta: Meta, of: Expr, before: Into | None, *rest: ForCaseNode | Into | None) -> ForNode:
        behind = next((one for one in rest if isinstance(one, Into)), None)
        if before is not None and behind is not None:
            self._error("`into` stands twice here", behind.span, f"first at {before.span}")
        elif before is not None:
            hint = "write it behind the cases: `for … of case … => … into … end`"
            message = "`into` stands before the cases: read as if it stood behind them"
            self._report(warning(WRITTEN_OTHERWISE, message, before.span, hint))
        start, fold, _ = behind or before or (None, None, None)
        cases = tuple(one for one in rest if isinstance(one, ForCaseNode))
        return ForNode(of, start, fold, cases, self._span(meta))

    for_effect = for_each

    def for_into(self, meta: Meta, start: Expr, fold: Name | None) -> Into:
        return Into(start, fold, self._span(meta))

    def fold(self, _meta: Meta, symbol: Token) -> Name:
        return Name(str(symbol), self._at(symbol))

    def for_case(
        self, meta: Meta, key: Name, value: Name, guard: Expr | None, *steps: "Expr | EffectSteps"
    ) -> ForCaseNode:
        return ForCaseNode(key, value, guard, _steps(steps), self._span(meta))

    for_effect_case = for_case


def defined(
    name: Name,
    args: tuple[Arg, ...],
    state: Expr | None,
    inputs: tuple[InputScript, ...],
    text: ScriptText,
    span: Span,
) -> DefineScript:
    return DefineScript(name, args, state, inputs, *_divided(text), span)


def _divided(text: ScriptText) -> "tuple[tuple[Use | DefineConst | DefineFunction, ...], tuple[Expr, ...] | None]":
    """The statements that define names, and the others."""
    names = tuple(one for one in text.statements if isinstance(one, Use | DefineConst | DefineFunction))
    body = tuple(
        cast("Expr", one) for one in text.statements if not isinstance(one, Use | DefineConst | DefineFunction)
    )
    consts = [one.name for one in names if isinstance(one, DefineConst)]
    if consts and not body:  # a script of constants alone: the value of the last one leaves
        body = (Reference((consts[-1],), consts[-1].span),)
    return names, body if text.whole else None


_MADE: Final = "(arguments)"  # no file can write such a name


def _extracts(pattern: PatternNode) -> bool:
    """What it makes is another value than the one that it fits."""
    return isinstance(pattern, ExtractNode | RecordPatternNode)


def _renamed(case: CaseNode, parameters: Sequence[Name]) -> CaseNode:
    """`case (~ json||) => …`: in the body, the parameter is what the pattern has made of it."""
    if not isinstance(case.pattern, BoundNode) or not isinstance(case.pattern.pattern, TuplePatternNode):
        return case
    made = Reference((case.pattern.name,), case.span)
    lets = [
        LetNode(
            Reference((name,), pattern.span),
            Access(made, (Literal(at, pattern.span),), pattern.span),
            pattern.span,
        )
        for at, (name, pattern) in enumerate(zip(parameters, case.pattern.pattern.items, strict=False))
        if _extracts(pattern)
    ]
    return case._replace(body=(*lets, *case.body))


def _pattern(written: "Expr | PatternNode", span: Span) -> PatternNode:
    return written if isinstance(written, PatternNode) else EqualNode(written, span)


def _steps(parts: "tuple[object, ...] | list[object]") -> tuple[Expr, ...]:
    if len(parts) == 1 and isinstance(parts[0], EffectSteps):
        return parts[0].steps
    return tuple(cast("Expr", part) for part in parts)
