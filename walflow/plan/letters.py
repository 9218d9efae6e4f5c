"""Of which sinks a log keeps what they reject."""

from collections.abc import Sequence

from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, ConnectorPlan
from walflow.plan.graph import Graph, Port


def lettered(graph: Graph, log: NodeId) -> Sequence[NodeId]:
    keeps = graph.connectors[log].connector.keeps_letters()
    if keeps is False:
        return []
    reached = {port.node for port in graph.accepted_from([Port(log, "out")])} & graph.connectors.keys()
    return sorted(
        sink
        for sink in reached - {log}
        if (keeps or not graph.is_linked(sink, ERR)) and _rejects_events(graph.connectors[sink])
    )


def _rejects_events(sink: ConnectorPlan) -> bool:
    """Where postprocessors change its bytes, what it rejects is no event any more."""
    return ERR in sink.connector.ports_used().outputs and not (sink.postframing and sink.postframing.encoders)
