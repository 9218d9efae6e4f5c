"""An operator that ends one ack domain and begins the next is a connector in the middle of a pipeline.

Here it becomes one in earnest: what is selected into it leaves the pipeline by a port of its own and is linked to the
connector, what the connector sends comes back by another. So it is supervised, measured, drained, printed and looked
into as every log is, and nothing behind this has to know.

So does what keeps something from one event to the next: see walflow.plan.results.
"""

from dataclasses import replace

from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, Assembly, Link, PipelinePlan, PlannedSelect
from walflow.plan.results import buffered
from walflow.registry import Registry


def split(assembly: Assembly, registry: Registry) -> Assembly:
    """`registry`: for the buffers of results."""
    linked = {(link.source, link.source_port) for link in assembly.links}
    connectors = list(assembly.connectors)
    pipelines: list[PipelinePlan] = []
    links = list(assembly.links)
    for pipeline in assembly.pipelines:
        ends: list[str] = []
        for operator in pipeline.operators:
            if operator.run_as is not None:
                err = pipeline.err_from(operator.name)
                reports = err in pipeline.errs.values() or (pipeline.id, err) in linked
                connectors.append(operator.run_as)
                links += _links(pipeline.id, operator.name, operator.run_as.id, reports=reports)
                pipeline = _without(pipeline, operator.name, reports=reports)
                ends.append(operator.name)
        outputs = {*ends, *(port for node, port in linked if node == pipeline.id)}
        pipeline, buffers, more = buffered(pipeline, outputs, ends, registry)
        connectors += buffers
        links += more
        pipelines.append(pipeline)
    return replace(assembly, connectors=tuple(connectors), pipelines=tuple(pipelines), links=tuple(links))


def _links(pipeline: NodeId, operator: str, connector: NodeId, *, reports: bool) -> list[Link]:
    links = [
        Link(pipeline, operator, connector, "in"),
        Link(connector, "out", pipeline, f"{operator}/out"),
    ]
    # without a link, a rejected event is logged at the connector's err port, and not dropped at the pipeline's
    return [*links, Link(connector, ERR, pipeline, f"{operator}/err")] if reports else links


def _without(pipeline: PipelinePlan, operator: str, *, reports: bool) -> PipelinePlan:
    """The pipeline without the operator: its place is an output now, and its exits are inputs."""
    exits = [f"{operator}/out", *([f"{operator}/err"] if reports else [])]
    err = pipeline.err_from(operator)
    rejected = (PlannedSelect(f"{operator}/err", err),) if reports and err else ()
    return replace(
        pipeline,
        inputs=(*pipeline.inputs, *exits),
        outputs=(*pipeline.outputs, operator),
        selects=(*pipeline.selects, *rejected),
        operators=tuple(one for one in pipeline.operators if one.name != operator),
    )
