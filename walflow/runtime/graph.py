"""Assembly -> nodes: every port gets its taker, every sink the gates of the sources upstream of it."""

from collections import defaultdict
from dataclasses import dataclass, field

import structlog
from structlog.typing import FilteringBoundLogger

from walflow.assemble import Assembly, ConnectorPlan, NodeId, PipelinePlan
from walflow.codecs import JSON
from walflow.event import Node
from walflow.flow.graph import Graph
from walflow.framing import LINES
from walflow.metrics import Counter, Metrics
from walflow.runtime.health import Health
from walflow.runtime.measures import measure
from walflow.runtime.nodes import DeadEnd, joined
from walflow.runtime.rejects import ErrPort
from walflow.runtime.sink import SinkNode
from walflow.runtime.source import SourceNode

Port = tuple[NodeId, str]


@dataclass(frozen=True)
class ConnectorNodes:
    plan: ConnectorPlan
    source: SourceNode
    sink: SinkNode
    health: Health = field(default_factory=Health)

    @property
    def name(self) -> str:
        return str(self.plan.id)


def build(assembly: Assembly, metrics: Metrics) -> list[ConnectorNodes]:
    """The connectors with their two halves, linked. Every gate starts shut by the sinks behind it, which open it
    as their runs begin."""
    return _Builder(assembly, metrics).build()


class _Builder:
    def __init__(self, assembly: Assembly, metrics: Metrics) -> None:
        self._assembly = assembly
        self._graph = Graph(assembly)
        self._metrics = metrics
        self._plans = {plan.id: plan for plan in assembly.connectors}
        self._pipelines = {plan.id: plan for plan in assembly.pipelines}
        self._links: dict[Port, list[Port]] = defaultdict(list)
        for link in assembly.links:
            self._links[link.source, link.source_port].append((link.target, link.target_port))
        self._sinks: dict[NodeId, SinkNode] = {}
        self._errs: dict[NodeId, ErrPort] = {}
        self._inputs: dict[Port, Node] = {}

    def build(self) -> list[ConnectorNodes]:
        for plan in self._assembly.connectors:
            self._errs[plan.id] = ErrPort(str(plan.id), None, self._rejected(plan), _logger(plan.id))
        for plan in self._assembly.connectors:
            self._sinks[plan.id] = self._sink(plan)
        for plan in self._assembly.connectors:
            if self._links[plan.id, "err"]:
                self._errs[plan.id].target = self._port((plan.id, "err"))
        made = [ConnectorNodes(plan, self._source(plan), self._sinks[plan.id]) for plan in self._assembly.connectors]
        for nodes in made:
            self._hang_gates(nodes)
            measure(self._metrics, nodes.plan.labels, nodes.source, nodes.sink, nodes.health)
        return made

    def _sink(self, plan: ConnectorPlan) -> SinkNode:
        linked = any(link.target == plan.id for link in self._assembly.links)
        return SinkNode(str(plan.id), self._errs[plan.id], plan.codec, plan.postframing, linked=linked)

    def _source(self, plan: ConnectorPlan) -> SourceNode:
        return SourceNode(
            str(plan.id),
            self._port((plan.id, "out")),
            self._errs[plan.id],
            plan.codec or JSON,
            plan.preframing or LINES,
            linked=bool(self._links[plan.id, "out"] or self._links[plan.id, "err"]),
            transactional=plan.connector.transactional,
        )

    def _port(self, port: Port) -> Node:
        """What takes the blocks that leave by a port."""
        targets = self._links[port]
        return joined([self._input(target) for target in targets]) if targets else self._dead_end(port)

    def _input(self, target: Port) -> Node:
        node, port = target
        if node.kind == "connector":
            return self._sinks[node]
        if target not in self._inputs:
            self._inputs[target] = self._pipeline(self._pipelines[node], port)
        return self._inputs[target]

    def _pipeline(self, plan: PipelinePlan, port: str) -> Node:
        outputs = [select.target for select in plan.selects if select.source == port]
        if not outputs:
            return self._dead_end((plan.id, port))
        return joined([self._port((plan.id, output)) for output in outputs])

    def _dead_end(self, port: Port) -> DeadEnd:
        node, name = port
        labels = self._plans[node].labels if node in self._plans else {**node.labels, "type": "pipeline"}
        return DeadEnd(self._metrics.counter("dropped_events_total", **labels, port=name))

    def _hang_gates(self, nodes: ConnectorNodes) -> None:
        source = nodes.plan.id
        for reached in self._graph.sinks_of(source):
            sink = self._sinks[reached]
            sink.gates.append(nodes.source.gate)
            sink.behind_log = sink.behind_log or nodes.source.transactional
            sink.sole_path = sink.sole_path and self._graph.sole_path(source, reached)
            nodes.source.gate.trigger(sink.name, "starting")

    def _rejected(self, plan: ConnectorPlan) -> Counter:
        return self._metrics.counter("rejected_events_total", **plan.labels)


def _logger(node: NodeId) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger(flow=node.flow, component=node.name)
    return logger
