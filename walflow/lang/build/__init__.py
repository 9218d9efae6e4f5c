"""Tree -> what the file declares. There is one method for each rule of `troy.lark`. Rules without a method are not
supported yet. `rules` contains what all need; `expressions`, `pipelines`, `scripts` and `flows` contain the rules of
these subjects.
"""

from collections.abc import Callable
from typing import Any

from lark import Token, Tree
from lark.tree import Meta
from msgspec.structs import replace

from walflow.compile.bodies import written_ports
from walflow.compile.nodes import Name, Path, Root
from walflow.diagnostics import Diagnostic, Source, Span
from walflow.lang.ast import (
    Arg,
    Create,
    CreateOperator,
    CreateScript,
    DefinePipeline,
    SelectStatement,
    Setting,
    Statement,
)
from walflow.lang.build.expressions import ExpressionRules
from walflow.lang.build.flows import FlowRules, kind_of_part
from walflow.lang.build.pipelines import CreateStream, PipelineRules
from walflow.lang.build.rules import by_rule
from walflow.lang.build.scripts import ScriptRules, ScriptText, defined


def build(tree: Tree[Token], source: Source, report: Callable[[Diagnostic], None]) -> tuple[Statement, ...]:
    # Any: lark does not know the type that a transformer returns
    transformer: Any = TroyRules(source, report)
    statements: tuple[Statement, ...] = transformer.transform(tree)
    return statements


def build_query(tree: Tree[Token], source: Source, name: str, report: Callable[[Diagnostic], None]) -> DefinePipeline:
    """The pipeline `name`. Its ports are those that its selects name: `in/other`, `out/ws0`."""
    transformer: Any = TroyRules(source, report)  # Any: as above
    body: tuple[object, ...] = transformer.transform(tree)
    begin = Span(source, 0, 0)
    inputs, outputs = transformer.written_ports("in"), transformer.written_ports("out")
    definition: DefinePipeline = transformer.pipeline_of(
        Name(name, begin), inputs or None, (*outputs, Name("err", begin)), (), body, Span(source, 0, len(source.text))
    )
    return definition


def build_script(
    tree: Tree[Token], source: Source, name: str, args: tuple[Arg, ...], report: Callable[[Diagnostic], None]
) -> DefinePipeline:
    """A pipeline that contains only the script, also called `name`.
    Its outputs are the ports that the script emits to."""
    transformer: Any = TroyRules(source, report)  # Any: as above
    text: ScriptText = transformer.transform(tree)
    begin, span = Span(source, 0, 0), Span(source, 0, len(source.text))
    script = defined(Name("script", begin), args, None, (), text, span)
    ports = [Name(port, begin) for port in written_ports(script.body or ())]
    event = Root("event", begin)
    selects = [SelectStatement(event, Name("in", begin), None, script.name, None, begin)]
    selects += [SelectStatement(event, script.name, None, port, None, begin, port) for port in ports]
    create = CreateScript(script.name, (script.name,), (), begin)
    definition: DefinePipeline = transformer.pipeline_of(
        Name(name, begin),
        None,
        tuple(dict.fromkeys([*ports, Name("err", begin)])),
        (),
        (script, create, *selects),
        span,
    )
    return replace(definition, whole=script.body is not None)


@by_rule
class TroyRules(FlowRules, PipelineRules, ScriptRules, ExpressionRules):
    """The rules of the whole language."""

    def create(
        self, meta: Meta, kind: Token, name: Name, path: Path | None, settings: tuple[Setting, ...] | None
    ) -> Create | CreateOperator | CreateScript | CreateStream:
        if kind == "connector" or kind == "pipeline":
            return Create(kind_of_part(kind), name, path or (name,), settings or (), self._span(meta))
        if kind == "stream":
            if path or settings:
                self._error("a stream has no definition and takes no args", self._span(meta))
            return CreateStream(name)
        if kind == "operator":
            return CreateOperator(name, path or (name,), settings or (), self._span(meta))
        return CreateScript(name, path or (name,), settings or (), self._span(meta))
