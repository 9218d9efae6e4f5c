"""Makes the nodes of an Assembly: each port gets the node that takes its blocks."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from walflow.codecs import JSON
from walflow.event import Node
from walflow.framing import LINES
from walflow.metrics import CountedValue, Metrics
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.fanout import AtPort, DeadEnd, joined
from walflow.nodes.gate import ReasonGate
from walflow.nodes.letters import SinkLetters
from walflow.nodes.measures import measure
from walflow.nodes.passed import Passed
from walflow.nodes.ports import PortName, WatchedPorts
from walflow.nodes.rejects import ErrPort
from walflow.nodes.sink import SinkNode
from walflow.nodes.source import Holder, SourceNode
from walflow.nodes.stem import ELSEWHERE, LaneStem, StemParts
from walflow.nodes.wiring import Wiring
from walflow.operators import OperatorContext, OutPort, Running, select as operators
from walflow.operators.stateful import StatefulSelect
from walflow.operators.windows import WindowSelect
from walflow.plan import Assembly, ConnectorPlan, NodeId, OperatorPlan, PipelinePlan, PlannedSelect
from walflow.plan.assembly import ERR
from walflow.plan.fingerprint import flow_hash
from walflow.plan.graph import Graph, Port
from walflow.plan.lanes import lanes
from walflow.plan.letters import lettered
from walflow.plan.regions import is_plain
from walflow_kernel.state import State
from walflow_kernel.windows.frame import open_frames, windows_of


class OperatorNode(NamedTuple):
    """An operator that has a node of its own, with a begin, a drain and an end."""

    name: str  # flow::pipeline/operator
    node: Running


class Nodes(NamedTuple):
    """The connectors, each with its two halves, linked. Each gate is shut at first, by the sinks downstream. A sink
    opens it when its run begins."""

    connectors: list[ConnectorNodes]
    operators: list[OperatorNode]
    ports: WatchedPorts


def build(assembly: Assembly, metrics: Metrics, *, flushes: bool = False) -> Nodes:
    """`flushes`: at a stop open windows are closed, and not dropped."""
    return _Builder(assembly, metrics, flushes=flushes).build()


class _Builder:
    def __init__(self, assembly: Assembly, metrics: Metrics, *, flushes: bool) -> None:
        self._assembly = assembly
        self._flushes = flushes
        self._metrics = metrics
        self._plans = {plan.id: plan for plan in assembly.connectors}
        self._pipelines = {plan.id: plan for plan in assembly.pipelines}
        self._hash_of = cache(partial(flow_hash, assembly))
        self._links: dict[Port, list[Port]] = defaultdict(list)
        for link in assembly.links:
            self._links[Port(link.source, link.source_port)].append(Port(link.target, link.target_port))
        self._sinks: dict[NodeId, SinkNode] = {}
        self._errs: dict[NodeId, ErrPort] = {}
        self._pipeline_errs: dict[Port, ErrPort] = {}
        self._stateful: list[tuple[ReasonGate, Sequence[NodeId]]] = []  # with the buffers of their results
        self._states: dict[NodeId, State] = defaultdict(dict)  # of pipelines
        self._windowed: dict[NodeId, list[WindowSelect]] = defaultdict(list)  # of pipelines
        self._inputs: dict[Port, Node] = {}  # of pipelines, and their streams and operators
        self._places: dict[Port, OperatorContext] = {}  # of operators
        self._running: list[OperatorNode] = []
        self._ports = WatchedPorts()
        self._holding: dict[str, Holder] = {}  # operators that report how many events they hold
        self._graph = Graph(assembly)
        self._lanes = {plan.id: lanes(assembly, self._graph, plan.id) for plan in assembly.connectors}
        self._stems = StemParts(
            self._links,
            self._pipelines,
            self._ports,
            self._entry,
            self._dead_end,
            self._err,
            lambda plan, target: self._err_port(plan, str(plan.id), target),
            lambda plan: self._metrics.counter("filtered_events_total", **plan.labels),
            self._has,
            self._graph.meet,
        )

    def build(self) -> Nodes:
        for plan in self._assembly.connectors:
            self._errs[plan.id] = self._err_port(plan, str(plan.id), None)
        for plan in self._assembly.connectors:
            self._sinks[plan.id] = self._sink(plan)
        for plan in self._assembly.connectors:
            if self._links[Port(plan.id, "err")]:
                self._errs[plan.id].target = self._port(Port(plan.id, "err"))
        made = [
            ConnectorNodes(plan, self._source(plan), self._sinks[plan.id], self._pushes(plan))
            for plan in self._assembly.connectors
        ]
        Wiring(self._graph, made, self._lanes, self._places, self._holding).tell()
        for nodes in made:
            self._hang_letters(nodes.source)
        for gate, buffers in self._stateful:
            for buffer in buffers:
                self._sinks[buffer].gates.append(gate)
                gate.trigger(str(buffer), "starting")
        for nodes in made:
            measure(self._metrics, nodes.plan.labels, nodes.source, nodes.sink, nodes.health)
        self._add_unlinked_errs()
        return Nodes(made, self._running, self._ports)

    def _sink(self, plan: ConnectorPlan) -> SinkNode:
        linked = any(link.target == plan.id for link in self._assembly.links)
        codec = plan.connector.sink_codec(plan.codec)
        return SinkNode(str(plan.id), self._errs[plan.id], codec, plan.postframing, linked=linked)

    def _pushes(self, plan: ConnectorPlan) -> bool:
        traits = plan.connector.traits
        links = self._links[Port(plan.id, "out")]
        if not self._sinks[plan.id].linked:
            links = links or self._links[Port(plan.id, "err")]
        return bool(links) and not (traits.transactional or traits.answers or plan.connector.resends())

    def _source(self, plan: ConnectorPlan) -> SourceNode:
        return SourceNode(
            str(plan.id),
            ELSEWHERE if len(self._lanes[plan.id]) > 1 else self._port(Port(plan.id, "out")),
            self._errs[plan.id],
            plan.codec or JSON,
            plan.preframing or LINES,
            linked=bool(self._links[Port(plan.id, "out")] or self._links[Port(plan.id, "err")]),
            transactional=plan.connector.traits.transactional,
            lanes=self._lane_sources(plan) if len(self._lanes[plan.id]) > 1 else {},
            alone=self._lanes[plan.id][0].name if len(self._lanes[plan.id]) == 1 else "",
            sinks=self._lanes[plan.id][0].ackers if len(self._lanes[plan.id]) == 1 else (),
            letters=self._letters(plan),
            flow_hash=self._hash_of(plan.id.flow) if plan.connector.traits.positions else "",
        )

    def _letters(self, plan: ConnectorPlan) -> Sequence[SinkLetters]:
        """Of a log: those of each of its sinks whose rejected events it keeps."""
        gives_up = not self._links[Port(plan.id, ERR)]
        return [
            SinkLetters(
                str(plan.id),
                sink,
                self._input(Port(sink, "in")),
                self._errs[sink],
                JSON,
                gives_up=gives_up,
                straight=self._graph.straight(plan.id, sink),
            )
            for sink in lettered(self._graph, plan.id)
        ]

    def _hang_letters(self, source: SourceNode) -> None:
        for one in source.letters:
            sink = self._sinks[one.id]
            self._errs[one.id].letters.append(one)
            sink.windows.append(one.source)
            sink.gates.append(one.source.gate)
            one.source.gate.trigger(sink.name, "starting")

    def _lane_sources(self, plan: ConnectorPlan) -> Mapping[str, SourceNode]:
        planned = self._lanes[plan.id]
        all_entries = frozenset(entry for lane in planned for entry in lane.entries)
        passed = Passed()
        return {
            lane.name: SourceNode(
                f"{plan.id} to {lane.name}",
                LaneStem(self._stems, lane.entries, all_entries - lane.entries).behind(Port(plan.id, "out")),
                self._errs[plan.id],
                plan.codec or JSON,
                transactional=plan.connector.traits.transactional,
                passed=passed,
                sinks=lane.ackers,
            )
            for lane in planned
        }

    def _entry(self, port: Port) -> Node:
        plan = self._pipelines.get(port.node)
        return self._input(port) if plan is None else self._within(plan, port.name)

    def _port(self, port: Port) -> Node:
        """The node that takes the blocks that leave by a port."""
        known = self._ports.get(PortName(*port))
        if known is not None:
            return known
        targets = self._links[port]
        to = (
            joined([self._input(target) for target in targets], meet=self._graph.meet(targets))
            if targets
            else self._dead_end(port)
        )
        if not self._has(port):
            return to
        return self._ports.add(PortName(*port), to)

    def _input(self, target: Port) -> Node:
        node, name = target
        if node.kind == "pipeline":
            to = self._within(self._pipelines[node], name)
        else:
            to = self._sinks[node] if name == "in" else AtPort(self._sinks[node], name)
        return self._ports.add(PortName(*target), to)

    def _within(self, plan: PipelinePlan, name: str) -> Node:
        """The node that takes the blocks at this place of a pipeline: an input, a stream, an operator or an exit of
        an operator."""
        place = Port(plan.id, name)
        if place not in self._inputs:
            selects = plan.selects_from(name)
            operator = next((one for one in plan.operators if one.name == name), None)
            if operator is not None:
                self._inputs[place] = self._operator(plan, operator)
            else:
                self._inputs[place] = self._selects(plan, selects) if selects else self._dead_end(place)
        return self._inputs[place]

    def _operator(self, plan: PipelinePlan, operator: OperatorPlan) -> Node:
        component = f"{plan.id.name}/{operator.name}"
        labels = {"flow": plan.id.flow, "component": component, "kind": "operator", "type": operator.kind}
        ways = zip(operator.ports.outputs, operator.exits, strict=True)
        place = OperatorContext(
            name=f"{plan.id}/{operator.name}",
            exits={port: OutPort(self._within(plan, exit), ReasonGate()) for port, exit in ways},
            err=self._err(plan, plan.err_from(operator.name) or ERR),
            counter=lambda of: self._metrics.counter(of, **labels),
            gauge=lambda of, read: self._operator_gauge(f"{plan.id}/{operator.name}", of, read, labels),
            log=structlog.get_logger(flow=plan.id.flow, component=component),
        )
        self._places[Port(plan.id, operator.name)] = place
        node = operator.operator.node(place)
        # a passthrough needs no node: the node behind it stands for it
        if isinstance(node, Running) and all(node is not other.node for other in self._running):
            self._running.append(OperatorNode(place.name, node))
        return node

    def _operator_gauge(self, place: str, of: str, read: Callable[[], float], labels: Mapping[str, str]) -> None:
        self._metrics.gauge(of, read, **labels)
        if of == "held_events":
            self._holding[place] = Holder(place, lambda: f"{read():,.0f} events" if read() else "", read)

    def _selects(self, plan: PipelinePlan, selects: Sequence[PlannedSelect]) -> Node:
        if is_plain(plan, selects):
            ports = [Port(plan.id, select.target) for select in selects]
            return joined([self._onward(plan, port.name) for port in ports], meet=self._graph.meet(ports))
        compiled = plan.regions.compiled(selects[0].source)
        exits = {exit: self._onward(plan, exit) for exit in compiled.exits}
        filtered = self._metrics.counter("filtered_events_total", **plan.labels)
        err = self._err(plan, plan.err_port(selects[0].source))
        if not compiled.has_state:
            return operators.Select(compiled, exits, err, filtered)
        state = self._states[plan.id]
        state |= {name: cell for name, cell in compiled.new_state().items() if name not in state}
        if len(state) == len(compiled.begins):
            self._metrics.gauge("state_bytes", lambda: sum(cell[1] for cell in state.values()), **plan.labels)
        gate = ReasonGate()
        select = operators.Select(compiled, exits, err, filtered, state=state)
        if compiled.windowed:
            node: StatefulSelect = self._windows(plan, selects[0].source, select, gate, state)
        else:
            node = StatefulSelect(select, gate)
        self._running.append(OperatorNode(compiled.name, node))
        self._stateful.append((gate, plan.domain.buffers if plan.domain else ()))
        return node

    def _windows(
        self, plan: PipelinePlan, entry: str, select: operators.Select, gate: ReasonGate, state: State
    ) -> WindowSelect:
        gauges: Mapping[str, Callable[[], float]] = {
            "window_groups": lambda: sum(len(one["groups"]) for one in windows_of(state)),
            "window_open": lambda: sum(len(open_frames(one)) for one in windows_of(state)),
            "window_late_events_total": lambda: sum(one["late"] for one in windows_of(state)),
        }
        for name, read in gauges.items():
            self._metrics.gauge(name, read, **plan.labels)
        place = OperatorContext(
            name=select.compiled.name,
            exits={},
            err=self._err(plan, plan.err_port(entry)),
            counter=lambda of: self._metrics.counter(of, **plan.labels),
            gauge=lambda of, read: self._metrics.gauge(of, read, **plan.labels),
            log=_logger(plan.id),
        )
        self._places[Port(plan.id, entry)] = place
        node = WindowSelect(select, gate, state, place, flushes=self._flushes)
        ours = self._windowed[plan.id]  # one for each region
        ours.append(node)
        self._metrics.gauge("window_oldest_seconds", lambda: max(one.oldest_seconds for one in ours), **plan.labels)
        return node

    def _onward(self, plan: PipelinePlan, target: str) -> Node:
        return self._within(plan, target) if target in plan.places else self._port(Port(plan.id, target))

    def _err(self, plan: PipelinePlan, err: str) -> ErrPort:
        """`err`: a port, or a place of a pipeline within this one."""
        port = Port(plan.id, err)
        if port not in self._pipeline_errs:
            within = err in plan.errs.values()  # of a pipeline within this one
            name = f"{plan.id}/{err.rpartition('/')[0]}" if within else str(plan.id)
            target = self._within(plan, err) if within else self._port(port) if self._links[port] else None
            self._pipeline_errs[port] = self._err_port(plan, name, target)
        return self._pipeline_errs[port]

    def _err_port(self, plan: ConnectorPlan | PipelinePlan, name: str, target: Node | None) -> ErrPort:
        return ErrPort(name, target, self._rejected(plan), _logger(plan.id), self._ports.rejections)

    def _has(self, port: Port) -> bool:
        """Whether the flow file may name this port."""
        plan = self._plans.get(port.node)
        return plan is None or port.name in plan.connector.ports_used().outputs

    def _add_unlinked_errs(self) -> None:
        """Adds the err ports that nothing is linked to: they can be watched too."""
        connectors = {Port(node, ERR): err for node, err in self._errs.items()}
        for port, err in (connectors | self._pipeline_errs).items():
            if err.target is None and port.name == ERR and self._has(port):
                err.unlinked = self._ports.add(PortName(*port), None)

    def _dead_end(self, port: Port) -> DeadEnd:
        node, name = port
        labels = (self._plans.get(node) or self._pipelines[node]).labels
        return DeadEnd(self._metrics.counter("dropped_events_total", **labels, port=name))

    def _rejected(self, plan: ConnectorPlan | PipelinePlan) -> CountedValue:
        return self._metrics.counter("rejected_events_total", **plan.labels)


def _logger(node: NodeId) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger(flow=node.flow, component=node.name)
    return logger
