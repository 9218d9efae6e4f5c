"""FlowConfig + registry -> Assembly, or diagnostics: what the runtime builds its nodes from."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from walflow import codecs, framing, lang
from walflow.compile.constant import Constant, ConstantPart
from walflow.contract import Claim, Connector, Ports
from walflow.diagnostics import Diagnostic, Span, did_you_mean, error, has_errors, in_order, one_of
from walflow.errors import WalflowError
from walflow.lang.config import ConnectorConfig, Flow, FlowConfig, NodeId, OperatorConfig, PipelineConfig
from walflow.operators import OPERATORS, Operator
from walflow.plan.assembly import Assembly, ConnectorPlan, Link, OperatorPlan, PipelinePlan, PlannedSelect
from walflow.plan.cycles import check_cycles
from walflow.plan.depth import check_depth
from walflow.plan.domains import Ends, split
from walflow.plan.graph import Graph, Port
from walflow.plan.links import GraphNode, check_links, check_unlinked
from walflow.plan.selects import check_selects, place
from walflow.plan.settings import check_keys, config_of, wire
from walflow.plan.validate import configure
from walflow.plugins import NotLoadable
from walflow.registry import connectors, find

Registry = Mapping[str, type[Connector]]

_TWICE = "one flow, deployed twice: give each its own, by an arg of the flow"
_INSTANCES = "each mapping has its own instance: let all link one, with a fixed name in the place of `{instance}`"

INPUTS = ("in",)
OUTPUTS = ("out", "err")


def load(
    files: Sequence[str | Path], registry: Registry | None = None, *, allow_cycles: bool = False
) -> tuple[Assembly | None, list[Diagnostic]]:
    """All files as one Assembly, None where there is an error; the warnings are worth reading in any case.
    `allow_cycles`: a flow may feed itself through a log."""
    config, found = lang.load(files)
    try:
        # now, and not when the first event of a log is decoded: what goes wrong is an error of the start
        codecs.registered()
        framing.registered()
        assembly, more = assemble(config, connectors() if registry is None else registry, allow_cycles=allow_cycles)
    except NotLoadable as refused:
        assembly, more = None, [error(str(refused))]
    found = in_order([*found, *more])
    return (None if has_errors(found) else assembly), found


def assemble(
    config: FlowConfig, registry: Registry, *, allow_cycles: bool = False
) -> tuple[Assembly | None, list[Diagnostic]]:
    assembling = _Assembling(registry)
    for flow in config.flows:
        assembling.add(flow)
    if config.sound and not has_errors(assembling.found):  # else what is not linked may be what went wrong
        assembling.warn_of_unlinked()
        assembling.check_cycles(allowed=allow_cycles)
        assembling.check_logs()
    found = in_order(assembling.found)
    return (None if has_errors(found) else assembling.assembly()), found


class _Assembling:
    def __init__(self, registry: Registry) -> None:
        self.found: list[Diagnostic] = []
        self._registry = registry
        self._connectors: list[ConnectorPlan] = []
        self._pipelines: list[PipelinePlan] = []
        self._links: dict[Link, Span] = {}
        self._checked: list[tuple[dict[NodeId, GraphNode], dict[Link, Span], dict[NodeId, PipelinePlan]]] = []
        self._claimed: dict[tuple[str, str], tuple[str, Span]] = {}
        self._ends: Ends = {}
        self._want_logs: list[tuple[Port, OperatorConfig]] = []

    def assembly(self) -> Assembly:
        return split(Assembly(tuple(self._connectors), tuple(self._pipelines), tuple(self._links)), self._ends)

    def add(self, flow: Flow) -> None:
        nodes: dict[NodeId, GraphNode] = {}
        used: dict[NodeId, PipelinePlan] = {}
        for connector in flow.connectors:
            nodes[connector.id] = self._connector(connector)
        for pipeline in flow.pipelines:
            plan = self._pipeline(pipeline)
            nodes[pipeline.id] = GraphNode(Ports(plan.inputs, plan.outputs), False, pipeline.created)
            used[pipeline.id] = plan
        links = check_links(flow, nodes, self.found.append)
        self._links |= links
        if flow.whole:
            self._checked.append((nodes, links, used))

    def warn_of_unlinked(self) -> None:
        for nodes, links, pipelines in self._checked:
            check_unlinked(nodes, links, pipelines, self.found.append)

    def check_cycles(self, *, allowed: bool) -> None:
        assembly = self.assembly()
        check_cycles(assembly, self._links, self.found.append, allowed=allowed)
        if not has_errors(self.found):
            check_depth(assembly, self._links, self.found.append)

    def check_logs(self) -> None:
        graph = Graph(self.assembly())
        for port, config in self._want_logs:
            sources = [node for node in graph.connectors if port in graph.places_of(node)]
            if sources and not any(graph.connectors[node].connector.positions for node in sources):
                names = f"{', '.join(f'`{node.name}`' for node in sources)} gives events no positions"
                hint = f"{names}: put a log before it, `qos::wal` with a `dir`, say"
                self.found.append(error(f"{config.kind.text} needs a log on disk upstream", config.created, hint))

    def _connector(self, config: ConnectorConfig) -> GraphNode:
        unknown = GraphNode(None, False, config.created)
        report = self._reporter(config)
        try:
            of = find(config.type.text, self._registry)
        except NotLoadable as refused:
            report(error(str(refused), config.type.span))
            return unknown
        if of is None:
            report(self._unknown_type(config))
            return unknown
        check_keys(config, of, report)
        framed = wire(config, of, report)
        connector = self._configured(config, of, report)
        if connector is None:
            # which of its ports it uses is its configuration's to say
            return (
                unknown
                if of.ports_used is not Connector.ports_used
                else GraphNode(of.ports, of.forwards, config.created, of.output_optional)
            )
        self._claim(connector.claims(), f"connector `{config.id}`", config.created)
        constant = config_of(config, of)
        written = {key: part.constant.span for key, part in constant.parts.items()} if constant else {}
        self._connectors.append(
            ConnectorPlan(config.id, config.type.text, connector, *framed, config.defined, written)
        )
        return GraphNode(connector.ports_used(), of.forwards, config.created, of.output_optional)

    def _reporter(self, config: ConnectorConfig) -> Callable[[Diagnostic], None]:
        """What is wrong in a module's definition was created somewhere, and that is the file at hand."""
        if config.defined.source is config.created.source:
            return self.found.append

        def report(diagnostic: Diagnostic) -> None:
            created = f"created at {config.created}"
            hint = f"{diagnostic.hint}; {created}" if diagnostic.hint else created
            self.found.append(diagnostic._replace(hint=hint))

        return report

    def _unknown_type(self, config: ConnectorConfig) -> Diagnostic:
        name = config.type.text
        hint = (
            did_you_mean(name, self._registry)
            or f"there are {one_of(sorted(self._registry)).replace(' or ', ' and ')}"
        )
        # tremor's own words: scripts look for them
        return error(f"Unknown connector type {name}", config.type.span, hint)

    def _configured(
        self, config: ConnectorConfig, of: type[Connector], report: Callable[[Diagnostic], None]
    ) -> Connector | None:
        if "config" not in config.settings and not config.complete:
            return None
        constant = config_of(config, of)
        try:
            connector, found = configure(config.type.text, of, constant, config.defined)
        except WalflowError as refused:
            connector, found = None, [error(str(refused), constant.span if constant else config.defined)]
        except Exception as failed:  # noqa: BLE001 - a stranger's validator may raise anything; the line names it
            message = f"connector type {config.type.text} cannot check its config: {type(failed).__name__}: {failed}"
            connector, found = None, [error(message, config.type.span)]
        for diagnostic in found:
            report(diagnostic)
        return connector

    def _claim(self, claims: Sequence[Claim], who: str, created: Span) -> None:
        for claim in claims:
            key = claim.what, _real(claim.path)
            if key in self._claimed:
                other, span = self._claimed[key]
                message = f"{who} and {other} have the same {claim.what} `{claim.path}`"
                hint = _TWICE if created.source.name.endswith(".troy") else _INSTANCES
                hint = hint if span == created else f"the other one is created at {span}"
                self.found.append(error(message, created, hint))
            else:
                self._claimed[key] = who, created

    def _pipeline(self, config: PipelineConfig) -> PipelinePlan:
        inputs = tuple(name.text for name in config.inputs) if config.inputs is not None else INPUTS
        outputs = tuple(name.text for name in config.outputs) if config.outputs is not None else OUTPUTS
        made = {operator.name.text: self._operator(operator, config.id) for operator in config.operators}
        ports = {name: operator and operator.ports for name, operator in made.items()}
        check_selects(config, inputs, outputs, ports, self.found.append)
        plan = PipelinePlan(
            config.id,
            inputs,
            outputs,
            tuple(
                PlannedSelect(
                    place(s.source, s.source_port, "out", ports),
                    place(s.target, s.target_port, "in", ports),
                    s.what,
                    s.where,
                    having=s.having,
                    span=s.span,
                )
                for s in config.selects
            ),
            tuple(name.text for name in config.streams),
            tuple(operator for operator in made.values() if operator),
        )
        self._pipelines.append(plan)
        return plan

    def _operator(self, config: OperatorConfig, pipeline: NodeId) -> OperatorPlan | None:
        kind = config.kind.text
        of = OPERATORS.get(kind)
        if of is None:
            hint = did_you_mean(kind, OPERATORS)
            hint = hint or f"there are {one_of(sorted(OPERATORS)).replace(' or ', ' and ')}"
            self.found.append(error(f"Unknown operator: {kind}", config.kind.span, hint))
            return None
        if not config.complete:
            return None
        values = {name: part.constant.value for name, part in config.settings.items()}
        parts: dict[str | int, ConstantPart] = dict(config.settings.items())
        operator, found = configure(kind, of, Constant(values, config.defined, parts), config.defined, bare=True)
        self.found += found
        if operator is None:
            return None
        name = f"{pipeline.name}/{config.name.text}"
        self._claim(operator.claims(), f"operator `{pipeline.flow}::{name}`", config.created)
        self._end_domain(operator, NodeId(pipeline.flow, "connector", name), config, pipeline)
        if of.needs_log:
            self._want_logs.append((Port(pipeline, config.name.text), config))
        return OperatorPlan(config.name.text, kind, operator, operator.ports_used(), of.chooses, of.whole)

    def _end_domain(self, operator: Operator, node: NodeId, config: OperatorConfig, pipeline: NodeId) -> None:
        stand_in = operator.stands_for()
        if stand_in is None:
            return
        of = find(stand_in.type, self._registry)
        if of is None:
            message = f"{config.kind.text} is run as connector type {stand_in.type}, which is not registered"
            self.found.append(error(message, config.kind.span))
            return
        connector = of.model_validate(stand_in.config)
        self._claim(connector.claims(), f"operator `{node}`", config.created)
        settings: dict[str | int, Span] = {key: part.constant.span for key, part in config.settings.items()}
        self._ends[pipeline, config.name.text] = ConnectorPlan(
            node, stand_in.type, connector, None, None, None, config.defined, settings
        )


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no file has a name like this
        return path
