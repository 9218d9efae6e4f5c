"""Expressions as they are written, with all that is shipped at hand; evaluated by what is compiled of them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.compile.interpreter import Interpreter
from walflow.compile.compiled import BlockCall, Compiled
from walflow.compile.compiler import compile_region
from walflow.compile.constant import Constant
from walflow.compile.lowering import fold
from walflow.compile.nodes import Expr
from walflow.compile.program import ScriptOf, Term
from walflow.compile.reads import Decoded
from walflow.compile.region import Region, Rule
from walflow.compile.resolve import Expression, resolved, script as resolve_script
from walflow.diagnostics import Diagnostic, Source
from walflow.lang.ast import DefinePipeline, DefineScript
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
    found = resolved(parsed(text, said), Names(shipped(uses), {}, said.append))
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
    found = fold(parsed(text, said), Names(shipped(), {}, said.append))
    return found, [diagnostic.message for diagnostic in said]


def parsed(text: str, said: list[Diagnostic]) -> Expr:
    source = Source("main.troy", f"define pipeline p pipeline select {text} from in into out; end;")
    [statement] = parse(source, said.append).statements
    assert isinstance(statement, DefinePipeline)
    assert statement.selects, said
    return statement.selects[0].what


@cache
def shipped(uses: str = USES) -> ModuleBlock:
    said: list[Diagnostic] = []
    block = Library(Path("/nonexistent"), said.append).file(Source("uses.troy", uses))
    assert not said
    return block


class Script:
    """A script between two places: what it makes of events, compiled and interpreted."""

    def __init__(self, of: ScriptOf) -> None:
        self.script = of
        ports = [*of.ports, *(["err"] if "err" in of.ports else [])]
        places = {"in": [Rule(None, None, None, "s")]}
        places |= {f"s/{port}": [Rule(None, None, None, port)] for port in ports}
        self.region = Region("test", "in", places, {"s": of})
        self.compiled = compile_region(self.region)

    def run(self, *events: object, meta: Mapping[str, object] | None = None) -> list[object]:
        """Of each event `(port, value)`, `KEPT` for one that leaves as it came; the reason of an error;
        None if dropped."""
        count = len(events)
        metas = [dict(meta or {}) for _ in events]
        came = BlockCall(Moment(INGEST_NS), range(count), {}, metas, lambda number: KEPT)
        outcome = self.compiled.run(Decoded(range(count), [*events]), came, self.compiled.new_state())
        found: list[object] = [None] * count
        for port, rows in outcome.rows.items():
            for number, value in zip(rows.numbers, rows.values or [KEPT] * len(rows.numbers), strict=True):
                found[number] = (port, value)
        for refusal in outcome.refused:
            found[refusal.number] = refusal.reason
        assert found.count(None) == outcome.dropped
        kept = [self.script.begins]
        interpreted = [self.interpreted(event, meta, kept) for event in events]
        assert found == interpreted, self.compiled.listing
        return found

    def interpreted(self, event: object, meta: Mapping[str, object] | None, state: list[object]) -> object:
        try:
            port, value, kept = Interpreter(event, dict(meta or {}), Moment(INGEST_NS), state).run(self.script)
        except CannotEvaluate as refused:
            return str(refused)
        return None if port is None else (port, KEPT if kept else value)


KEPT = "as it came"


def read_script(text: str, functions: str = "") -> tuple[Script | None, list[str]]:
    """What stands between `script` and `end`, with what is said of it.
    `functions`: what stands before its pipeline."""
    said: list[Diagnostic] = []
    source = f"{USES}{functions}\ndefine script s\nscript\n{text}\nend;"
    block = Library(Path("/nonexistent"), said.append).file(Source("main.troy", source))
    definition = block.definitions.get((DefineScript, "s"))
    found = None
    if isinstance(definition, DefineScript) and definition.body is not None:
        inner = Library(Path("/nonexistent"), said.append).block(definition.names, True, block)
        found = resolve_script("s", definition.body, Names(inner, {}, said.append), definition.span)
    return found and Script(found), [diagnostic.message for diagnostic in said]


def script(text: str, functions: str = "") -> Script:
    found, said = read_script(text, functions)
    assert found is not None, said
    return found
