"""`deploy flow x;` -> the nodes and links to run. Names are looked up, args are bound, every setting becomes a
constant."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from walflow.compile.constant import Constant, ConstantPart
from walflow.compile.lowering import fold
from walflow.compile.nodes import Expr, Name, Path, path_span, spelled
from walflow.compile.resolve import Expression, is_event, resolved, script
from walflow.compile.windows import Windowing, WrittenKey
from walflow.diagnostics import Diagnostic, Report, Span, error
from walflow.lang import ast
from walflow.lang.ast import (
    Connect,
    Create,
    DefineConnector,
    DefineFlow,
    DefineOperator,
    DefinePipeline,
    DefineScript,
    DefineWindow,
    Deploy,
    Directive,
    InputScript,
)
from walflow.lang.config import (
    ConnectorConfig,
    Flow,
    FlowConfig,
    LinkConfig,
    LinkEnd,
    NestedConfig,
    NodeId,
    OperatorConfig,
    PipelineConfig,
    ScriptConfig,
    SelectConfig,
    Uncreated,
)
from walflow.lang.directives import check_directive, engine_of
from walflow.lang.modules import Library, ModuleBlock
from walflow.lang.nesting import Nesting
from walflow.lang.outside import OutsideArgs
from walflow.lang.scope import Args, Names, bind, constants, functions, lookup, settings
from walflow.lang.unread import WithArgs, unread_args
from walflow.lang.windows import KnownWindow, TickScript, read_window, unused_window
from walflow.warnings import warning
from walflow.warnings.unused import UNUSED
from walflow_kernel.errors import CannotApply
from walflow_kernel.state import BOUND, cell, too_much
from walflow_kernel.values import kind_of
from walflow_kernel.windows.groups import DEFAULT_MAX_BYTES, DEFAULT_MAX_GROUPS


class Deployment:
    """All deployments of the given files. `library` depends on the file: a module is looked for in the folder of the
    file that uses it."""

    def __init__(self, report: Report, outside: OutsideArgs) -> None:
        self._report = report
        self._outside = outside
        self._flows: dict[str, Flow] = {}
        self._used: set[Span] = set()  # by where they are defined
        self._unread: list[Diagnostic] = []

    def config(self) -> FlowConfig:
        return FlowConfig(tuple(self._flows.values()))

    def add(self, file: ModuleBlock, library: Library) -> None:
        constants(file, self._report)
        functions(file, self._report)
        for statement in file.statements:
            if isinstance(statement, Directive):
                check_directive(statement, Names(file, None, self._report))
            elif isinstance(statement, Deploy):
                self._deploy(statement, file, library)

    def unread(self) -> Sequence[Diagnostic]:
        """Args that nothing reads. An error may be the reason, so they are for files without one."""
        return self._unread

    def left_out(self, file: ModuleBlock) -> Iterator[Diagnostic]:
        for statement in file.statements:
            if isinstance(statement, DefineFlow) and statement.name.span not in self._used:
                name = statement.name
                hint = f"add `deploy flow {name.text};`"
                yield warning(UNUSED, f"flow `{name.text}` is defined but never deployed", name.span, hint)

    def _deploy(self, deploy: Deploy, file: ModuleBlock, library: Library) -> None:
        found = lookup(file, deploy.of, DefineFlow, self._report)
        if found is None:
            return
        definition, home = found
        self._used.add(definition.name.span)
        alias = deploy.name
        if first := self._flows.get(alias.text):
            self._report(error(f"flow `{alias.text}` is deployed twice", alias.span, f"first at {first.span}"))
            return
        args = bind(
            definition.args,
            Names(home, None, self._report),
            deploy.settings,
            Names(file, None, self._report),
            f"flow `{definition.name.text}`",
            alias,
            self._outside.of(alias.text, [arg.name.text for arg in definition.args]),
        )
        if not definition.body and home.whole:
            hint = "deployed, it does nothing"
            self._report(
                warning(UNUSED, f"flow `{definition.name.text}` declares nothing", definition.name.span, hint)
            )
        self._unread += unread_args("flow", definition)
        body = library.block(definition.body, home.whole, home)
        self._flows[alias.text] = _Instance(alias, body, args, library, self._report, self._unread).flow()


def pipeline(
    alias: Name,
    definition: DefinePipeline,
    name: Name,
    library: Library,
    report: Report,
    settings: tuple[ast.Setting, ...] = (),
    home: ModuleBlock | None = None,
) -> PipelineConfig:
    """One instance, called `name`, of a pipeline that is a file of its own, or stands in `home`."""
    home = home or library.block((), definition.whole, None)
    create = Create("pipeline", name, (definition.name,), settings, name.span)
    return _Instance(alias, home, {}, library, report).pipeline(create, definition, home)


def pipeline_alone(
    alias: Name, create: Create, definition: DefinePipeline, home: ModuleBlock, library: Library, report: Report
) -> PipelineConfig:
    """One instance of a pipeline that no flow deploys. `home`: the block that defines it."""
    constants(home, report)
    functions(home, report)
    return _Instance(alias, home, {}, library, report).pipeline(create, definition, home)


class _Instance:
    """One deployment of one flow: its nodes and links."""

    def __init__(
        self,
        alias: Name,
        body: ModuleBlock,
        args: Args,
        library: Library,
        report: Report,
        unread: list[Diagnostic] | None = None,
    ) -> None:
        self._alias = alias
        self._unread = unread
        self._body = body
        self._args = args
        self._library = library
        self._report = report
        self._used: set[Span] = set()  # by where they are defined
        self._nesting = Nesting(report)
        self._scopes: dict[ModuleBlock | None, Names] = {}  # within pipelines
        self._lost = False

    def flow(self) -> Flow:
        constants(self._body, self._report)
        functions(self._body, self._report)
        creates = self._last_creates()
        connectors = [self._connector(create) for create in creates if create.kind == "connector"]
        pipelines = [self._created_pipeline(create) for create in creates if create.kind == "pipeline"]
        links = [self._link(s) for s in self._body.statements if isinstance(s, Connect)]
        if self._body.whole and not self._lost:
            self._warn_of_unused()
        return Flow(
            self._alias.text,
            tuple(connector for connector in connectors if connector),
            tuple(pipeline for pipeline in pipelines if pipeline),
            tuple(links),
            self._body.whole and not self._lost,
            self._alias.span,
        )

    def _warn_of_unused(self) -> None:
        for statement in self._body.definitions.values():
            name = statement.name
            if isinstance(statement, DefineConnector | DefinePipeline) and name.span not in self._used:
                kind = "connector" if isinstance(statement, DefineConnector) else "pipeline"
                hint = f"so it is not checked; create it: `create {kind} {name.text};`"
                self._report(warning(UNUSED, f"{kind} `{name.text}` is defined, never created", name.span, hint))
            elif isinstance(statement, DefineWindow) and name.span not in self._used:
                self._report(unused_window(name))

    def _creates(self) -> Sequence[Create]:
        return [statement for statement in self._body.statements if isinstance(statement, Create)]

    def _id(self, kind: ast.Kind, name: Name) -> NodeId:
        return NodeId(self._alias.text, kind, name.text)

    def _last_creates(self) -> Sequence[Create]:
        """In tremor the last one has the name, and nothing is linked to the others. Here they are not even begun."""
        last: dict[NodeId, Create] = {}
        for create in self._creates():
            before = last.pop(self._id(create.kind, create.name), None)
            last[self._id(create.kind, create.name)] = create
            if before is not None:
                said = f"{create.kind} `{create.name.text}` is created twice, and the last one counts"
                hint = f"delete one of the two; first at {before.name.span}"
                self._report(warning(UNUSED, said, create.name.span, hint))
                kind = DefineConnector if create.kind == "connector" else DefinePipeline
                if found := lookup(self._body, before.of, kind, self._report):
                    self._used.add(found[0].name.span)
        return list(last.values())

    def _connector(self, create: Create) -> ConnectorConfig | None:
        found = lookup(self._body, create.of, DefineConnector, self._report)
        if found is None:
            self._lost = True
            return None
        definition, home = found
        self._used.add(definition.name.span)
        args = self._bound("connector", create, definition, home, self._here())
        values = settings(definition.settings, self._inside(home, args))
        return ConnectorConfig(
            self._id("connector", create.name),
            definition.type,
            {name: ConstantPart(key, value) for name, key, value in _named(definition.settings, values)},
            None not in values.values(),
            definition.name.span,
            create.name.span,
        )

    def _created_pipeline(self, create: Create) -> PipelineConfig | None:
        found = lookup(self._body, create.of, DefinePipeline, self._report)
        if found is None:
            self._lost = True
            return None
        definition, home = found
        self._used.add(definition.name.span)
        return self.pipeline(create, definition, home)

    def pipeline(self, create: Create, definition: DefinePipeline, home: ModuleBlock) -> PipelineConfig:
        """Of the flow itself."""
        with self._nesting.enter(definition, create.name):
            return self._made(create, definition, home, self._id("pipeline", create.name), None)

    def _made(
        self, create: Create, definition: DefinePipeline, home: ModuleBlock, node: NodeId, outer: Names | None
    ) -> PipelineConfig:
        """`outer`: of the pipeline that it lies in, None where it lies in the flow."""
        args = self._bound("pipeline", create, definition, home, outer or self._here())
        body = self._library.block(definition.names, definition.whole, home)
        constants(body, self._report)
        functions(body, self._report)
        scope = self._scopes[body] = self._inside(body, args)
        engine = engine_of(definition.directives, scope)
        if outer is not None and engine is not None:
            hint = "it runs where the pipeline around it runs: say it there"
            self._report(error("a pipeline within a pipeline has no engine of its own", create.name.span, hint))
        operators = [self._operator(create, body, scope) for create in definition.operators]
        pipelines = tuple(self._nested(create, body, scope, node) for create in definition.pipelines)
        made = PipelineConfig(
            node,
            definition.inputs,
            definition.outputs,
            definition.streams,
            tuple(self._select(select, body, scope) for select in definition.selects),
            definition.whole and None not in operators and all(one.pipeline for one in pipelines),
            definition.name.span,
            create.name.span,
            tuple(operator for operator in operators if operator),
            tuple(self._script(create, body, scope) for create in definition.scripts),
            tuple(self._uncreated(definition)),
            engine,
            pipelines,
        )
        if definition.whole:
            self._warn_of_unused_windows(definition)
        return made

    def _nested(self, create: Create, body: ModuleBlock, scope: Names, outer: NodeId) -> NestedConfig:
        found = lookup(body, create.of, DefinePipeline, self._report)
        if found is None:
            return NestedConfig(create.name, None)
        definition, home = found
        self._used.add(definition.name.span)
        node = outer._replace(name=f"{outer.name}/{create.name.text}")
        with self._nesting.enter(definition, create.name) as possible:
            made = self._made(create, definition, home, node, scope) if possible else None
        return NestedConfig(create.name, made)

    def _uncreated(self, definition: DefinePipeline) -> Iterator[Uncreated]:
        operators = {create.of[0].text for create in definition.operators if len(create.of) == 1}
        scripts = {create.of[0].text for create in definition.scripts if len(create.of) == 1}
        for statement in definition.names:
            if isinstance(statement, DefineOperator) and statement.name.text not in operators:
                yield Uncreated("operator", statement.name)
            elif isinstance(statement, DefineScript) and statement.name.text not in scripts:
                yield Uncreated("script", statement.name)
            elif isinstance(statement, DefinePipeline) and statement.name.span not in self._used:
                yield Uncreated("pipeline", statement.name)

    def _warn_of_unused_windows(self, definition: DefinePipeline) -> None:
        """Once all selects are known, also those of the pipelines within."""
        for statement in definition.names:
            if isinstance(statement, DefineWindow) and statement.name.span not in self._used:
                self._report(unused_window(statement.name))

    def _operator(self, create: ast.CreateOperator, body: ModuleBlock, scope: Names) -> OperatorConfig | None:
        found = lookup(body, create.of, DefineOperator, self._report)
        if found is None:
            return None
        definition, home = found
        declared = {arg.name.text for arg in definition.args}
        given = [setting for setting in create.settings if setting.name.text in declared]
        over = [setting for setting in create.settings if setting.name.text not in declared]
        args = self._bound("operator", replace(create, settings=tuple(given)), definition, home, scope)
        values = settings(definition.settings, self._inside(home, args))
        over_values = settings(over, scope)
        named = [*_named(definition.settings, values), *_named(over, over_values)]
        return OperatorConfig(
            create.name,
            Name(spelled(definition.kind), path_span(definition.kind)),
            {name: ConstantPart(key, value) for name, key, value in named},
            None not in values.values() and None not in over_values.values(),
            definition.name.span,
        )

    def _script(self, create: ast.CreateScript, body: ModuleBlock, scope: Names) -> ScriptConfig:
        found = lookup(body, create.of, DefineScript, self._report)
        if found is None:
            return ScriptConfig(create.name, None)
        definition, home = found
        args = self._bound("script", create, definition, home, scope)
        sections = [InputScript(definition.name, definition.names, definition.body), *definition.inputs]
        scopes = [self._section(section, home, args) for section in sections]
        begins = self._begins(definition.state, scopes[0])
        found_scripts = [
            None
            if section.body is None
            else script(create.name.text, section.body, names, definition.span, begins.value if begins else None)
            for section, names in zip(sections, scopes, strict=True)
        ]
        scripts = [one for one in found_scripts if one is not None]
        ports = self._input_ports(definition)
        if len(scripts) < len(sections) or ports is None or (definition.state is not None and begins is None):
            return ScriptConfig(create.name, None)
        return ScriptConfig(create.name, scripts[0], dict(zip(ports, scripts[1:], strict=True)))

    def _bound(
        self,
        kind: str,
        create: Create | ast.CreateOperator | ast.CreateScript,
        definition: WithArgs,
        home: ModuleBlock,
        outer: Names,
    ) -> Args:
        if self._unread is not None:
            self._unread += unread_args(kind, definition)
        what = f"{kind} `{spelled(create.of)}`"
        return bind(definition.args, self._around(home), create.settings, outer, what, create.name)

    def _section(self, section: InputScript, home: ModuleBlock, args: Args) -> Names:
        inner = self._library.block(section.names, section.body is not None, home)
        constants(inner, self._report)
        functions(inner, self._report)
        hint = "a script sees its own args alone: declare `args x = …` and hand it on by `with`"
        return Names(inner, args, self._report, hint)

    def _begins(self, written: Expr | None, names: Names) -> Constant | None:
        found = None if written is None else fold(written, names)
        if found is not None:
            try:
                if cell(found.value)[1] > BOUND:
                    raise too_much(BOUND)
            except CannotApply as refused:
                self._report(error(f"`state`: {refused}", found.span))
                return None
        return found

    def _input_ports(self, definition: DefineScript) -> list[str] | None:
        ports: list[str] = []
        for port in (one.port for one in definition.inputs):
            if port.text == "in" or port.text in ports:
                hint = "what stands behind `script` alone takes the events that come to `in`"
                message = f"there are two scripts for `{port.text}`"
                self._report(error(message, port.span, hint if port.text == "in" else None))
                return None
            ports.append(port.text)
        return ports

    def _select(self, select: ast.SelectStatement, body: ModuleBlock, scope: Names) -> SelectConfig:
        where = self._condition("where", select.where, scope)
        found = SelectConfig(
            select.source,
            select.target,
            where=where,
            source_port=select.source_port,
            target_port=select.target_port,
            span=select.span,
        )
        if not select.windows and select.group is None:
            what = None if is_event(select.what) else resolved(select.what, scope)
            return replace(found, what=what, having=self._condition("having", select.having, scope))
        known = [self._window(path, body, scope) for path in select.windows]
        windows = [window for window in known if window is not None]
        if len(windows) < len(known):  # said already; the target would be wrong once more
            return found
        self._check_chain(select, windows)
        keys = [WrittenKey(part.value, part.each) for part in select.group.parts] if select.group else []
        most = min((window.max_groups for window in windows), default=DEFAULT_MAX_GROUPS)
        max_bytes = min((window.max_bytes for window in windows), default=DEFAULT_MAX_BYTES)
        of = Windowing([window.frame for window in windows], keys, scope, most, max_bytes)
        what_term = None if not windows and is_event(select.what) else of.target(select.what)
        having_term = None if select.having is None else of.having(select.having)
        return replace(
            found,
            what=None if what_term is None else Expression(what_term, None),
            having=None if having_term is None else Expression(having_term, None),
            windows=of.windows(select.group.span if select.group else select.span),
        )

    def _check_chain(self, select: ast.SelectStatement, windows: Sequence[KnownWindow]) -> None:
        """The script of a window looks at the event that has closed the one before it:
        time alone must not close that."""
        timed = None
        for window, path in zip(windows, select.windows, strict=True):
            if window.frame.verdict is not None and window is not windows[0]:
                hint = f"`in[{spelled(path)}, …]`"
                self._report(error("a window with a `state` stands before all others", path_span(path), hint))
            if timed is not None and window.frame.measure is not None:
                hint = f"give `{spelled(timed)}` a script too, or take the one of `{spelled(path)}` away"
                message = (
                    f"`{spelled(timed)}` may close without an event, and the script of `{spelled(path)}` needs one"
                )
                self._report(error(message, path_span(path), hint))
            if window.frame.timed:
                timed = path

    def _window(self, path: Path, body: ModuleBlock, scope: Names) -> KnownWindow | None:
        found = lookup(body, path, DefineWindow, self._report)
        if found is None:
            return None
        definition, home = found
        self._used.add(definition.name.span)
        around = scope if home is body else self._around(home)
        values = settings(definition.settings, around)

        def inside(names: Sequence[ast.Statement], whole: bool) -> Names:
            inner = self._library.block(names, whole, home)
            constants(inner, self._report)
            functions(inner, self._report)
            return Names(inner, None, self._report) if home is not body else scope.within(inner)

        at_ticks = [TickScript(one, inside(one.names, one.body is not None)) for one in definition.inputs]
        names = inside(definition.names, definition.whole)
        return read_window(definition, values, names, at_ticks, self._report)

    def _condition(self, word: str, written: Expr | None, scope: Names) -> Expression | None:
        """None if there is no condition, or if it is always true."""
        condition = None if written is None else resolved(written, scope)
        if condition is None or condition.constant is None:
            return condition
        value = condition.constant.value
        if not isinstance(value, bool):
            self._report(error(f"`{word}` takes true or false, not {kind_of(value)}", condition.span))
        return None if value is True else condition

    def _here(self) -> Names:
        return Names(self._body, self._args, self._report)

    def _around(self, home: ModuleBlock) -> Names:
        """The block in which the defaults of a definition are evaluated: the block that contains the definition.
        Within a flow or a pipeline, its args are known there."""
        return self._scopes.get(home) or Names(home, self._args if home is self._body else None, self._report)

    def _inside(self, home: ModuleBlock, args: Args) -> Names:
        hint = None
        if self._args and self._body in (home, home.outer):
            hint = "a definition sees its own args alone: declare `args x = args.x` to hand one of the flow's on"
        elif home in self._scopes or home.outer in self._scopes:
            hint = "a definition sees its own args alone: declare `args x = …` and hand it on by `with`"
        return Names(home, args, self._report, hint)

    def _link(self, connect: Connect) -> LinkConfig:
        return LinkConfig(self._endpoint(connect.source), self._endpoint(connect.target), connect.span)

    def _endpoint(self, end: ast.ConnectEnd) -> LinkEnd:
        return LinkEnd(self._id(end.kind, end.name), end.port, end.span)


def _named(given: Sequence[ast.Setting], values: dict[str, Constant | None]) -> Sequence[tuple[str, Span, Constant]]:
    found = [(setting.name.text, setting.name.span, values[setting.name.text]) for setting in given]
    return [(name, key, value) for name, key, value in found if value is not None]
