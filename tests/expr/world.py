"""Expressions as they are written, with all that is shipped at hand."""

from functools import cache
from pathlib import Path

from walflow.diagnostics import Diagnostic, Source
from walflow.expr.compile import Expression, compiled
from walflow.expr.constant import Constant
from walflow.expr.fold import fold
from walflow.expr.nodes import Expr
from walflow.lang.ast import DefinePipeline
from walflow.lang.modules import Block, Library
from walflow.lang.parser import parse
from walflow.lang.scope import Names

USES = """
use std::{array, base64, float, integer, json, math, random, range, re, record, size, string, type, url};
use std::time::nanos;
use tremor::system;
"""


def read(text: str) -> tuple[Expression | None, list[str]]:
    """As the target of a select, with what is said of it."""
    said: list[Diagnostic] = []
    found = compiled(parsed(text, said), Names(_shipped(), {}, said.append))
    return found, [diagnostic.message for diagnostic in said]


@cache
def expression(text: str) -> Expression:
    found, said = read(text)
    assert found is not None, said
    return found


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
def _shipped() -> Block:
    said: list[Diagnostic] = []
    block = Library(Path("/nonexistent"), said.append).file(Source("uses.troy", USES))
    assert not said
    return block
