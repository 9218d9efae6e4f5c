"""FlowConfig + registry -> Assembly, or diagnostics.

Each flow is planned by itself: its connectors, its pipelines, then its links. Some mistakes show only in all flows
together (cycles, depth, which log is upstream). They are checked in the Assembly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from walflow import codecs, framing, lang
from walflow.contract import Ports, risk_name
from walflow.diagnostics import Diagnostic, Report, Span, error, has_errors, in_order
from walflow.lang.config import ConnectorConfig, Flow, FlowConfig, NodeId, PipelineConfig
from walflow.lang.files import ALL_SAVED, Unsaved
from walflow.plan.assembly import Assembly, ConnectorPlan, Link, PipelinePlan
from walflow.plan.claims import Claims
from walflow.plan.connectors import plan_connector
from walflow.plan.cycles import check_cycles
from walflow.plan.depth import check_depth
from walflow.plan.domains import split
from walflow.plan.graph import Graph, Port
from walflow.plan.kinds import check_kinds
from walflow.plan.links import GraphNode, check_links, check_unlinked
from walflow.plan.on_spark import NOWHERE_ELSE, Engine, Hosting, placed, spark_settings, unused_settings
from walflow.plan.pipelines import plan_pipeline
from walflow.plugins import NotLoadable
from walflow.registry import Registry, connectors
from walflow.warnings import registered


def load(
    files: Sequence[str | Path],
    registry: Registry | None = None,
    *,
    args: Sequence[str] = (),
    allow_cycles: bool = False,
    engine: Engine | None = None,
    spark_config: Path | None = None,
    reads_secrets: bool = False,
    unsaved: Unsaved = ALL_SAVED,
) -> tuple[Assembly | None, list[Diagnostic]]:
    """All files as one Assembly; None if there is an error. There may be warnings in both cases. `args`: args of the
    flows, each NAME=VALUE. `allow_cycles`: a flow may feed itself through a log. `engine`: where pipelines run that
    do not say it. `spark_config`: a file with settings for those on Spark. `reads_secrets`: the files of `secret(…)`
    are read, as `run` does. `unsaved`: texts of an editor."""
    config, found = lang.load(files, args, reads_secrets=reads_secrets, unsaved=unsaved)
    try:
        if registry is None:
            registry = connectors()
        settings = None
        if spark_config is not None:
            settings = spark_settings(spark_config, len(files), registry, found.append)
        # now, so that an error ends the start, and not the first event of a log
        codecs.registered()
        framing.registered()
        assembly, more = assemble(
            config,
            registry,
            allow_cycles=allow_cycles,
            hosting=Hosting(engine, settings),
        )
    except NotLoadable as refused:
        assembly, more = None, [error(str(refused))]
    found = config.environment.hidden(config.allowances.rest(in_order([*found, *more])))
    return (None if has_errors(found) else assembly), found


def assemble(
    config: FlowConfig, registry: Registry, *, allow_cycles: bool = False, hosting: Hosting = NOWHERE_ELSE
) -> tuple[Assembly | None, list[Diagnostic]]:
    found: list[Diagnostic] = []
    report = found.append
    claims = Claims(report)
    flows = [_plan_flow(flow, registry, claims, hosting, report) for flow in config.flows]
    unused_settings(hosting, [plan for flow in flows for plan in flow.pipelines], report)
    written = {link: span for flow in flows for link, span in flow.links.items()}
    assembly = split(
        Assembly(
            tuple(plan for flow in flows for plan in flow.connectors),
            tuple(plan for flow in flows for plan in flow.pipelines),
            tuple(written),
            {node.id: (node.defined, node.created) for flow in config.flows for node in _nodes(flow)},
            config.allowances,
            config.environment,
            config.sources,
        ),
        registry,
    )
    if config.sound and not has_errors(found):  # otherwise an error may be the cause
        for flow in flows:
            if flow.whole:
                check_unlinked(flow.nodes, flow.links, {plan.id: plan for plan in flow.pipelines}, report)
        check_cycles(assembly, written, report, allowed=allow_cycles)
        if not has_errors(found):
            check_depth(assembly, written, report)
            check_kinds(assembly, report)
        _check_logs(assembly, report)
    found += config.allowances.unknown({*registered(), *_risks(assembly)})
    found = in_order(found)
    return (None if has_errors(found) else assembly), found


def _nodes(flow: Flow) -> Iterator[ConnectorConfig | PipelineConfig]:
    yield from flow.connectors
    yield from flow.pipelines


def _risks(assembly: Assembly) -> Iterator[str]:
    """The names of warnings, those of connectors of other packages among them."""
    if not assembly.allowances.of:
        return
    for plan in assembly.connectors:
        for behind_log in (False, True):
            yield from map(risk_name, plan.connector.guarantee(behind_log=behind_log).warnings)


@dataclass(frozen=True)
class _FlowPlan:
    """`links`: each with its place in the file. `whole`: no part of it was lost to an error."""

    connectors: list[ConnectorPlan]
    pipelines: list[PipelinePlan]
    nodes: dict[NodeId, GraphNode]
    links: dict[Link, Span]
    whole: bool


def _plan_flow(flow: Flow, registry: Registry, claims: Claims, hosting: Hosting, report: Report) -> _FlowPlan:
    nodes: dict[NodeId, GraphNode] = {}
    made: list[ConnectorPlan] = []
    pipelines: list[PipelinePlan] = []
    for config in flow.connectors:
        plan, nodes[config.id] = plan_connector(config, registry, report)
        if plan is not None:
            claims.add(plan.connector.claims(), f"connector `{plan.id}`", config.created)
            made.append(plan)
    for each in flow.pipelines:
        pipeline = plan_pipeline(each, registry, report)
        pipeline = placed(pipeline, each, hosting, registry, report)
        nodes[each.id] = GraphNode(Ports(pipeline.inputs, pipeline.outputs), False, each.created)
        pipelines.append(pipeline)
        for operator in pipeline.operators:
            claimed = [*operator.operator.claims(), *(operator.run_as.connector.claims() if operator.run_as else ())]
            claims.add(claimed, f"operator `{pipeline.id}/{operator.name}`", operator.created)
    return _FlowPlan(made, pipelines, nodes, check_links(flow, nodes, report), flow.whole)


def _check_logs(assembly: Assembly, report: Report) -> None:
    """Some operators need the positions that only a log on disk gives."""
    graph = Graph(assembly)
    for pipeline in assembly.pipelines:
        for operator in pipeline.operators:
            if not operator.operator.needs_log:
                continue
            place = Port(pipeline.id, operator.name)
            sources = [node for node in graph.connectors if place in graph.places_of(node)]
            if sources and not any(graph.connectors[node].connector.traits.positions for node in sources):
                names = f"{', '.join(f'`{node.name}`' for node in sources)} gives events no positions"
                hint = f"{names}: put a log before it, `qos::wal` with a `dir`, say"
                report(error(f"{operator.kind} needs a log on disk upstream", operator.created, hint))
