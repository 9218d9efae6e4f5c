"""Expressions of selects, and bodies of scripts and functions -> terms. `lowering` has the expressions, `bodies` what
sets locals and what has effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from walflow.compile.bodies import Body
from walflow.compile.constant import Constant
from walflow.compile.lowering import lower
from walflow.compile.nodes import Expr, Name, Root
from walflow.compile.program import Const, DropOf, EmitOf, FunctionOf, ScriptOf, Term, VerdictOf, walk
from walflow.compile.scope import Scope
from walflow.compile.windows import TickBody
from walflow.diagnostics import Span, error
from walflow_kernel.state import BOUND


@dataclass(frozen=True, slots=True)
class Expression:
    """`constant`: its value, if it does not depend on the event."""

    term: Term
    constant: Constant | None

    @property
    def span(self) -> Span:
        return self.term.span


def resolved(node: Expr, scope: Scope) -> Expression | None:
    """An expression of a select. None: it has no value, and the reason was reported."""
    found = lower(node, Body(scope, "select"))
    if found is None:
        return None
    return (
        Expression(Const(found.value, node.span), found) if isinstance(found, Constant) else Expression(found, None)
    )


def script(
    name: str, statements: Sequence[Expr], scope: Scope, span: Span, begins: object = None, bound: int = BOUND
) -> ScriptOf | None:
    """None: it has an error, which was reported. `begins`: the first value of its state."""
    body = Body(scope, "script", statements)
    term = body.outcome_of(statements, span)
    if term is None:
        return None
    return ScriptOf(
        name,
        term,
        tuple(body.ports),
        "event" in body.sets,
        "$" in body.sets,
        tuple(body.unsure),
        span,
        body.keeps,
        begins,
        bound,
    )


def verdict(
    statements: Sequence[Expr], scope: Scope, span: Span, begins: object, *, at_tick: bool = False
) -> VerdictOf | None:
    """The script of a window with a `state`. None: it has an error, which was reported."""
    body = TickBody(scope, statements) if at_tick else Body(scope, "script", statements)
    term = body.outcome_of(statements, span)
    if term is None:
        return None
    leaves = [
        one
        for one in walk(term)
        if isinstance(one, DropOf) or (isinstance(one, EmitOf) and (one.port != "out" or one.value is None))
    ]
    if leaves or body.sets & {"event", "$"}:
        hint = "it ends in `true` where the window closes, `false` where it does not, or `[true, false]`"
        message = "the script of a window changes its `state` alone, and no event leaves by it"
        scope.report(error(message, leaves[0].span if leaves else span, hint))
        return None
    return VerdictOf(term, tuple(body.unsure), begins)


def function(
    name: str,
    parameters: Sequence[Name],
    statements: Sequence[Expr],
    scope: Scope,
    span: Span,
    *,
    variadic: bool = False,
) -> FunctionOf | None:
    """None: it has an error, which was reported. `variadic`: further arguments are in the array `args`."""
    body = Body(scope, "function", statements, variadic=variadic)
    named = [*parameters, Name("args", span)] if variadic else parameters
    taken = tuple(body.parameter(one) for one in named)
    term = body.result_of(statements, span)
    if term is None:
        return None
    return FunctionOf(name, taken, variadic, term, body.recurs, tuple(body.unsure), span)


def is_event(node: Expr) -> bool:
    """Whether it is `event` without a path."""
    return isinstance(node, Root) and node.word == "event"
