"""Rules of statements in pipelines."""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, cast

from lark import Token
from lark.tree import Meta

from walflow.compile.nodes import (
    Expr,
    Name,
    Path,
    Unsupported,
)
from walflow.diagnostics import Diagnostic, Source, Span
from walflow.lang.ast import (
    Arg,
    Create,
    CreateOperator,
    CreateScript,
    DefineConst,
    DefineFunction,
    DefineOperator,
    DefinePipeline,
    DefineScript,
    DefineWindow,
    Directive,
    Grouping,
    GroupPart,
    InputScript,
    SelectStatement,
    Setting,
    Use,
)
from walflow.lang.build.rules import TreeRules, by_rule
from walflow.lang.build.scripts import ScriptText, StateText, defined


class PortNames(NamedTuple):
    names: tuple[Name, ...]


class _StreamPort(NamedTuple):
    node: Name
    port: Name | None


class CreateStream(NamedTuple):
    name: Name


_NAMES = Use | DefineConst | DefineOperator | DefineScript | DefineWindow | DefineFunction | DefinePipeline


class SelectWindows(NamedTuple):
    """`[a, b]` behind what a select is from."""

    paths: tuple[Path, ...]


class WindowSettings(NamedTuple):
    settings: tuple[Setting, ...]


class WindowScript(NamedTuple):
    text: ScriptText


@by_rule
class PipelineRules(TreeRules):
    def __init__(self, source: Source, report: Callable[[Diagnostic], None]) -> None:
        super().__init__(source, report)
        self._written: dict[tuple[str, str], Name] = {}  # ports of a pipeline, by their side

    def define_pipeline(
        self,
        meta: Meta,
        name: Name,
        inputs: PortNames | None,
        outputs: PortNames | None,
        args: tuple[Arg, ...] | None,
        body: tuple[object, ...],
    ) -> DefinePipeline:
        self._check_directions(inputs, outputs)
        ports = inputs and inputs.names, outputs and outputs.names
        return self.pipeline_of(name, *ports, args or (), body, self._span(meta))

    def pipeline_of(
        self,
        name: Name,
        inputs: tuple[Name, ...] | None,
        outputs: tuple[Name, ...] | None,
        args: tuple[Arg, ...],
        body: tuple[object, ...],
        span: Span,
    ) -> DefinePipeline:
        return DefinePipeline(
            name,
            inputs,
            outputs,
            args,
            tuple(s for s in body if isinstance(s, Directive)),
            tuple(s for s in body if isinstance(s, _NAMES)),
            tuple(s.name for s in body if isinstance(s, CreateStream)),
            tuple(s for s in body if isinstance(s, CreateOperator)),
            tuple(s for s in body if isinstance(s, CreateScript)),
            tuple(s for s in body if isinstance(s, Create) and s.kind == "pipeline"),
            tuple(s for s in body if isinstance(s, SelectStatement)),
            not any(map(_is_lost, body)),
            span,
        )

    def query(self, _meta: Meta, body: tuple[object, ...]) -> tuple[object, ...]:
        return body

    def written_ports(self, side: str) -> tuple[Name, ...]:
        return tuple(name for (of, _), name in self._written.items() if of == side)

    def _check_directions(self, inputs: PortNames | None, outputs: PortNames | None) -> None:
        incoming = {port.text for port in inputs.names} if inputs else {"in"}
        for port in outputs.names if outputs else ():
            if port.text in incoming:
                hint = "what comes and what leaves are two ports: name one of them otherwise"
                self._error(f"`{port.text}` is an input of this pipeline too", port.span, hint)

    def ports(self, _meta: Meta, *names: Name) -> PortNames:
        return PortNames(self._distinct("port", names))

    def pipeline_body(self, _meta: Meta, *statements: object) -> tuple[object, ...]:
        uses = (cast("list[object]", s) if isinstance(s, list) else [s] for s in statements)
        return tuple(chain.from_iterable(uses))

    def define_operator(
        self,
        meta: Meta,
        first: Name | Path,
        second: Name | Path,
        args: tuple[Arg, ...] | None,
        settings: tuple[Setting, ...] | None,
    ) -> DefineOperator:
        # of tremor 0.11 the kind comes first
        name, kind = (first, second) if isinstance(first, Name) else (second, first)
        return DefineOperator(cast("Name", name), cast("Path", kind), args or (), settings or (), self._span(meta))

    def select(
        self,
        meta: Meta,
        what: Expr,
        source: _StreamPort,
        windows: SelectWindows | None,
        where: Expr | None,
        group: Grouping | None,
        target: _StreamPort,
        having: Expr | None,
    ) -> SelectStatement:
        begin, end = self._placed(source, "in"), self._placed(target, "out")
        span, paths = self._span(meta), windows.paths if windows else ()
        ports = begin.port, end.port
        return SelectStatement(what, begin.node, where, end.node, having, span, *ports, paths, group)

    def windows(self, _meta: Meta, *paths: Path) -> SelectWindows:
        return SelectWindows(paths)

    def group_by(self, meta: Meta, *parts: "Expr | Grouping") -> Grouping:
        """A set in a set is as if its values stood there."""
        found: list[GroupPart] = []
        for part in parts:
            found += part.parts if isinstance(part, Grouping) else [GroupPart(part, each=False)]
        return Grouping(tuple(found), self._span(meta))

    group_set = group_by

    def group_each(self, meta: Meta, value: Expr) -> Grouping:
        return Grouping((GroupPart(value, each=True),), self._span(meta))

    def define_window(self, meta: Meta, *parts: object) -> DefineWindow:
        name = next(one for one in parts if isinstance(one, Name))
        kind = next(one for one in parts if isinstance(one, Token))
        settings = next((one.settings for one in parts if isinstance(one, WindowSettings)), ())
        state = next((one.begins for one in parts if isinstance(one, StateText)), None)
        inputs = tuple(one for one in parts if isinstance(one, InputScript))
        text = next((one.text for one in parts if isinstance(one, WindowScript)), None)
        script = defined(name, (), state, inputs, text or ScriptText((), whole=True), self._span(meta))
        return DefineWindow(
            name,
            Name(str(kind), self._at(kind)),
            settings,
            state,
            inputs,
            script.names,
            script.body if text is not None else None,
            text is None or text.whole,
            self._span(meta),
        )

    def window_settings(self, _meta: Meta, *settings: Setting) -> WindowSettings:
        return WindowSettings(settings)

    def window_script(self, _meta: Meta, text: ScriptText) -> WindowScript:
        return WindowScript(text)

    def _placed(self, written: _StreamPort, whole: str) -> _StreamPort:
        placed = _place(written, whole)
        if written.node.text == whole:
            self._written.setdefault((whole, placed.node.text), placed.node)
        return placed

    def where(self, _meta: Meta, condition: Expr) -> Expr:
        return condition

    having = where

    def stream_port(self, _meta: Meta, node: Name, port: Name | None) -> _StreamPort:
        return _StreamPort(node, port)


def _is_lost(statement: object) -> bool:
    """Why has been reported. A token: ERROR."""
    return isinstance(statement, Token | Unsupported) or (
        isinstance(statement, Create) and statement.kind != "pipeline"
    )


def _place(written: _StreamPort, whole: str) -> _StreamPort:
    """`out/ws0` is the pipeline's port `ws0`, as `out` alone is its port `out`."""
    node, port = written
    return _StreamPort(port, None) if port and node.text == whole else written
