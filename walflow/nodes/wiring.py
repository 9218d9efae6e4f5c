"""Tells nodes of each other beyond their neighbours. A sink and an operator know all sources upstream, and stop them
by their gates. A source knows all sinks and operators that hold its events."""

from collections.abc import Mapping, Sequence

from walflow import contract
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.source import Holder, SourceNode
from walflow.operators import OperatorContext
from walflow.plan import NodeId
from walflow.plan.graph import Graph, Port, Stops
from walflow.plan.lanes import LanePlan


class Wiring:
    """`operators`: by place. `holding`: by name, the operators that report how many events they hold."""

    def __init__(
        self,
        graph: Graph,
        connectors: Sequence[ConnectorNodes],
        lanes: Mapping[NodeId, Sequence[LanePlan]],
        operators: Mapping[Port, OperatorContext],
        holding: Mapping[str, Holder],
    ) -> None:
        self._graph = graph
        self._connectors = connectors
        self._lanes = lanes
        self._sinks = {nodes.plan.id: nodes.sink for nodes in connectors}
        self._operators = operators
        self._holding = holding

    def tell(self) -> None:
        for nodes in self._connectors:
            self._tell_of_source(nodes)
        for node, sink in self._sinks.items():
            sink.upstream = sink.upstream._replace(
                straight=self._graph.is_straight(node), straight_files=self._graph.is_straight_from_files(node)
            )
        self._hang_gates()

    def _tell_of_source(self, nodes: ConnectorNodes) -> None:
        source, node = nodes.source, nodes.plan.id
        if source.transactional:
            source.sink_is_full = nodes.sink.triggered
            nodes.sink.on_trigger = source.tell_full
        for reached in self._graph.sinks_of(node):
            sink = self._sinks[reached]
            known = sink.upstream
            sink.upstream = known._replace(
                behind_log=known.behind_log or nodes.plan.connector.resends(),
                sole_path=known.sole_path and self._graph.sole_path(node, reached),
                sources=known.sources + 1,
            )
            source.holders.append(Holder(sink.name, sink.held, sink.outcomes, is_sink=True))
        self._tell_of_recall(nodes)
        for place in self._graph.places_of(node) & self._operators.keys():
            operator = self._operators[place]
            if not nodes.plan.connector.resends():
                operator.forgetful.append(source.name)
            if operator.name in self._holding:
                source.holders.append(self._holding[operator.name])
        for lane, begin in self._ways(nodes):
            self._tell_of_window(lane, begin)
            if lane is not source:
                lane.holders += [one for one in source.holders if one.name in self._names_from(begin)]

    def _tell_of_window(self, source: SourceNode, begin: Sequence[Port]) -> None:
        for reached in self._graph.sinks_from(begin):
            self._sinks[reached].windows.append(source)
        for place in self._graph.places_from(begin) & self._operators.keys():
            self._operators[place].windows.append(source)

    def _names_from(self, begin: Sequence[Port]) -> set[str]:
        sinks = {self._sinks[reached].name for reached in self._graph.sinks_from(begin)}
        return sinks | {self._operators[at].name for at in self._graph.places_from(begin) & self._operators.keys()}

    def _ways(self, nodes: ConnectorNodes) -> list[tuple[SourceNode, Sequence[Port]]]:
        """The source or each of its lanes, and where its events begin. A lane may reject events by the log's own err:
        what cannot take them stops every lane."""
        planned = self._lanes[nodes.plan.id]
        if len(planned) < 2:
            return [(nodes.source, self._graph.outputs(nodes.plan.id))]
        err = self._graph.err_of(nodes.plan.id)
        return [(nodes.source.lanes[lane.name], [*lane.entries, *err]) for lane in planned]

    def _tell_of_recall(self, nodes: ConnectorNodes) -> None:
        source, recalls = nodes.source, nodes.plan.connector.traits.recalls
        known = self._graph.recalling(nodes.plan.id)
        if recalls is not None and known is not None:
            log = self._sinks[known]
            log.upstream = log.upstream._replace(recalled_by={**log.upstream.recalled_by, source.name: recalls})
            source.recall = lambda: log.remembered.pop(source.name, ())

    def _hang_gates(self) -> None:
        for nodes in self._connectors:
            for source, begin in self._ways(nodes):
                self._hang(source.gate, self._graph.stops(begin))
        for sink in self._sinks.values():
            sink.upstream = sink.upstream._replace(replaceable=sink.linked and not sink.gates)
        for chooser in self._graph.choosers.keys() & self._operators.keys():
            exits = self._operators[chooser].exits.values()
            for exit, (_, gate) in zip(self._graph.exits(chooser), exits, strict=True):
                self._hang(gate, self._graph.stops([exit]))
        for sink in self._sinks.values():
            for gate in sink.gates:
                gate.trigger(sink.name, "starting")

    def _hang(self, gate: contract.Gate, stops: Stops) -> None:
        for sink in stops.sinks:
            self._sinks[sink].gates.append(gate)
        for chooser in stops.choosers & self._operators.keys():
            self._operators[chooser].upstream.append(gate)
