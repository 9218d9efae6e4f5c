"""A pipeline that a flow file declares, with its operators -> its plan, or diagnostics."""

from typing import Final

from walflow.compile.constant import Constant, ConstantPart
from walflow.contract import Ports
from walflow.diagnostics import Report, did_you_mean, error, one_of
from walflow.lang.config import NodeId, OperatorConfig, PipelineConfig
from walflow.operators import Operator, registered
from walflow.plan.assembly import ConnectorPlan, OperatorPlan, PipelinePlan, PlannedSelect, ScriptPlan, script_ports
from walflow.plan.inline import inline
from walflow.plan.selects import check_selects, place
from walflow.plan.validate import configure
from walflow.plugins import NotLoadable
from walflow.registry import Registry, find
from walflow.roles import type_of

INPUTS: Final = ("in",)
OUTPUTS: Final = ("out", "err")


def plan_pipeline(config: PipelineConfig, registry: Registry, report: Report) -> PipelinePlan:
    """The plan leaves out operators that have an error."""
    inputs = tuple(name.text for name in config.inputs) if config.inputs is not None else INPUTS
    outputs = tuple(name.text for name in config.outputs) if config.outputs is not None else OUTPUTS
    planned = {one.name.text: _plan_operator(one, config.id, registry, report) for one in config.operators}
    ports = {name: operator.ports if operator else None for name, operator in planned.items()}
    ports |= {one.name.text: script_ports(one.script, one.inputs) if one.script else None for one in config.scripts}
    within = {
        one.name.text: plan_pipeline(one.pipeline, registry, report) for one in config.pipelines if one.pipeline
    }
    ports |= {one.name.text: None for one in config.pipelines}
    ports |= {name: Ports(inner.inputs, inner.outputs) for name, inner in within.items()}
    check_selects(config, inputs, outputs, ports, within, report)
    selects = (
        PlannedSelect(
            place(select.source, select.source_port, "out", ports),
            place(select.target, select.target_port, "in", ports),
            select.what,
            select.where,
            having=select.having,
            span=select.span,
            windows=select.windows,
        )
        for select in config.selects
    )
    streams = tuple(name.text for name in config.streams)
    operators = tuple(operator for operator in planned.values() if operator)
    scripts = tuple(ScriptPlan(one.name.text, one.script, one.inputs) for one in config.scripts if one.script)
    return inline(PipelinePlan(config.id, inputs, outputs, tuple(selects), streams, operators, scripts), within)


def _plan_operator(
    config: OperatorConfig, pipeline: NodeId, registry: Registry, report: Report
) -> OperatorPlan | None:
    kind = config.kind.text
    try:
        of = registered().get(kind)
    except NotLoadable as refused:
        report(error(str(refused), config.kind.span))
        return None
    if of is None:
        known = sorted(registered())
        hint = did_you_mean(kind, known) or f"there are {one_of(known).replace(' or ', ' and ')}"
        report(error(f"Unknown operator: {kind}", config.kind.span, hint))
        return None
    if not config.complete:
        return None
    values = {name: part.constant.value for name, part in config.settings.items()}
    parts: dict[str | int, ConstantPart] = dict(config.settings.items())
    operator, found = configure(kind, of, Constant(values, config.defined, parts), config.defined, bare=True)
    for diagnostic in found:
        report(diagnostic)
    if operator is None:
        return None
    run_as = _run_as(operator, config, pipeline, registry, report)
    return OperatorPlan(config.name.text, kind, operator, config.created, run_as)


def _run_as(
    operator: Operator, config: OperatorConfig, pipeline: NodeId, registry: Registry, report: Report
) -> ConnectorPlan | None:
    stand_in = operator.stands_for()
    if stand_in is None:
        return None
    type = type_of(stand_in.role)
    of = find(type, registry)
    if of is None:
        message = f"{config.kind.text} is run as connector type {type}, which is not registered"
        report(error(message, config.kind.span))
        return None
    node = NodeId(pipeline.flow, "connector", f"{pipeline.name}/{config.name.text}")
    written: dict[str | int, ConstantPart] = dict(config.settings.items())
    spans = {key: part.constant.span for key, part in written.items()}
    connector = of.model_validate(stand_in.config)
    return ConnectorPlan(node, type, connector, None, None, None, config.defined, spans)
