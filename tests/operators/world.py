"""Expressions as they are written."""

from functools import cache

from walflow.diagnostics import Diagnostic, Source
from walflow.expr.compile import Expression, compiled
from walflow.lang.ast import DefinePipeline
from walflow.lang.modules import Block
from walflow.lang.parser import parse
from walflow.lang.scope import Names


def read(text: str) -> tuple[Expression | None, list[str]]:
    """With what is said of it."""
    said: list[Diagnostic] = []
    source = Source("main.troy", f"define pipeline p pipeline select {text} from in into out; end;")
    [statement] = parse(source, said.append).statements
    assert isinstance(statement, DefinePipeline)
    found = compiled(statement.selects[0].what, Names(Block((), whole=True), {}, said.append))
    return found, [diagnostic.message for diagnostic in said]


@cache
def expression(text: str) -> Expression:
    found, said = read(text)
    assert found is not None, said
    return found
