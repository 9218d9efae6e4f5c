"""Expressions as they are written, with all that is shipped at hand; evaluated by what is compiled of them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.compile.interpreter import Interpreter
from walflow.compile.constant import Constant
from walflow.compile.fold import fold
from walflow.compile.nodes import Expr
from walflow.compile.program import Term
from walflow.compile.reads import Decoded
from walflow.compile.region import BlockCall, Compiled, Region, Rule, compile_region
from walflow.compile.resolve import Expression, resolved
from walflow.diagnostics import Diagnostic, Source
from walflow.lang.ast import DefinePipeline
from walflow.lang.modules import Library, ModuleBlock
from walflow.lang.parser import parse
from walflow.lang.scope import Names
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.moment import Moment
from walflow_kernel.values import TOO_DEEP

USES = """
use std::{array, base64, binary, datetime, float, integer, json, math, path, random, range, re, record, size, string};
use std::{test, type, url};
use std::time::nanos;
use tremor::{chash, system};
use cncf::otel;
use cncf::otel::{span_id, trace_id};
use cncf::otel::logs::{severity, traceflags};
use cncf::otel::trace::{spankind, status};
"""
INGEST_NS = 1_700_000_000_000_000_000


class Evaluable:
    """One expression as the target of a select, alone in its region."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.compiled = compile_region(Region("test", "in", {"in": [Rule(expression.term, None, None, "out")]}))

    @property
    def constant(self) -> Constant | None:
        return self.expression.constant

    def evaluate(self, event: object, meta: Mapping[str, object] | None = None, position: int = 0) -> object:
        return evaluated(self.compiled, event, meta, position)

    def interpret(self, event: object, meta: Mapping[str, object] | None = None) -> object:
        return interpreted(self.expression.term, event, meta)


def evaluated(
    compiled: Compiled, event: object, meta: Mapping[str, object] | None = None, position: int = 0
) -> object:
    """Raises CannotEvaluate with the reason."""
    outcome = compiled.run(Decoded([0], [event]), call(meta, position))
    if outcome.refused:
        raise CannotEvaluate(outcome.refused[0].reason)
    values = outcome.rows["out"].values
    assert values is not None
    return values[0]


def interpreted(term: Term, event: object, meta: Mapping[str, object] | None = None) -> object:
    moment = Moment(INGEST_NS)
    moment.seed(0)
    try:
        return Interpreter(event, dict(meta or {}), moment).value(term)
    except RecursionError:
        raise CannotEvaluate(TOO_DEEP) from None


def call(meta: Mapping[str, object] | None = None, position: int = 0) -> BlockCall:
    return BlockCall(Moment(INGEST_NS), [position], dict(meta or {}), None, lambda number: None)


def read(text: str, uses: str = USES) -> tuple[Evaluable | None, list[str]]:
    """As the target of a select, with what is said of it."""
    said: list[Diagnostic] = []
    found = resolved(parsed(text, said), Names(_shipped(uses), {}, said.append))
    return None if found is None else Evaluable(found), [diagnostic.message for diagnostic in said]


@cache
def expression(text: str, uses: str = USES) -> Evaluable:
    found, said = read(text, uses)
    assert found is not None, said
    return found


@cache
def term(text: str) -> Term:
    return expression(text).expression.term


def configured(text: str) -> tuple[Constant | None, list[str]]:
    """As a value behind `with`."""
    said: list[Diagnostic] = []
    found = fold(parsed(text, said), Names(_shipped(), {}, said.append))
    return found, [diagnostic.message for diagnostic in said]


def parsed(text: str, said: list[Diagnostic]) -> Expr:
    source = Source("main.troy", f"define pipeline p pipeline select {text} from in into out; end;")
    [statement] = parse(source, said.append).statements
    assert isinstance(statement, DefinePipeline)
    return statement.selects[0].what


@cache
def _shipped(uses: str = USES) -> ModuleBlock:
    said: list[Diagnostic] = []
    block = Library(Path("/nonexistent"), said.append).file(Source("uses.troy", uses))
    assert not said
    return block
