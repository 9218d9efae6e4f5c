"""Which node reaches which along the links. `check` prints it, and the runtime decides by it.

Paths end at connectors: what a sink half acks is forgotten upstream, and what a source half sends is new. There is
one exception: an event that a sink rejects leaves by its `err` port, and its outcome is that of the path from there.
So reachability follows `err` through a sink. The paths that `check` prints do not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link, PipelinePlan


class Port(NamedTuple):
    node: NodeId
    name: str


class Path(NamedTuple):
    """The links from a port of a source to a port of a sink, in order."""

    links: tuple[Link, ...]

    @property
    def source(self) -> NodeId:
        return self.links[0].source

    @property
    def sink(self) -> NodeId:
        return self.links[-1].target


class Stops(NamedTuple):
    """What can stop a source, or an exit of an operator that chooses between outputs: breakers of sinks, and such
    operators. What is behind such an operator stops only its exit."""

    sinks: frozenset[NodeId]
    choosers: frozenset[Port]


class _Trail(NamedTuple):
    """The links so far, last first. Paths with a common beginning share it."""

    before: "_Trail | None"
    link: Link

    def path(self) -> Path:
        links: list[Link] = []
        trail: _Trail | None = self
        while trail:
            links.append(trail.link)
            trail = trail.before
        return Path(tuple(reversed(links)))


Edges = Mapping[Port, tuple[Port, ...]]


class Graph:
    """Built once from a checked Assembly. Each method only reads it."""

    def __init__(self, assembly: Assembly) -> None:
        self.connectors: Mapping[NodeId, ConnectorPlan] = {plan.id: plan for plan in assembly.connectors}
        self.pipelines: Mapping[NodeId, PipelinePlan] = {plan.id: plan for plan in assembly.pipelines}
        self._links: dict[Port, list[Link]] = defaultdict(list)
        for link in assembly.links:
            self._links[Port(link.source, link.source_port)].append(link)
        self._within: dict[Port, list[Port]] = defaultdict(list)
        for pipeline in assembly.pipelines:
            through = pipeline.through
            for name in pipeline.places:
                targets = [select.target for select in pipeline.selects_from(name)]
                targets += through.get(name, ())
                # an event that a pipeline rejects leaves by err, also without a select into err
                err = pipeline.err_from(name)
                implied = [err] if err is not None and err != name and err not in targets else []
                self._within[Port(pipeline.id, name)] = [Port(pipeline.id, to) for to in [*targets, *implied]]
        self.choosers = {
            Port(pipeline.id, operator.name): operator
            for pipeline in assembly.pipelines
            for operator in pipeline.operators
            if operator.operator.chooses
        }
        # an event that is rejected is removed from its block, as a filtered one is
        self._losing = {
            Port(pipeline.id, name)
            for pipeline in assembly.pipelines
            for name in (
                *(select.source for select in pipeline.selects if not select.plain),
                *(operator.name for operator in pipeline.operators if not operator.operator.whole),
                *(place for script in pipeline.scripts for place in script.places),
                *pipeline.errs.values(),
                ERR,
            )
        } | {Port(plan.id, ERR) for plan in assembly.connectors}
        # what holds events, keeps them, or makes one of several; and what one event may reach twice
        self._keeping = {
            Port(pipeline.id, name)
            for pipeline in assembly.pipelines
            for name in (
                *(operator.name for operator in pipeline.operators),
                *(pipeline.domain.places if pipeline.domain is not None else ()),
                *pipeline.errs.values(),
                ERR,
            )
        } | {Port(plan.id, ERR) for plan in assembly.connectors}
        self._forward = self._edges()
        self._backward = _reversed(self._forward)

    def _edges(self) -> Edges:
        edges: dict[Port, tuple[Port, ...]] = {port: tuple(to) for port, to in self._within.items()}
        for port, links in self._links.items():
            edges[port] = tuple(Port(link.target, link.target_port) for link in links)
        for plan in self.connectors.values():
            ports = plan.connector.ports_used()
            if ERR in ports.outputs:
                edges |= {Port(plan.id, name): (Port(plan.id, ERR),) for name in ports.inputs}
        return edges

    def paths(self) -> Iterator[Path]:
        """Every way from a source to a sink, one at a time: a flow with many diamonds has very many."""
        for port in list(self._links):
            if port.node in self.connectors:
                yield from self._paths_from(port)

    def _paths_from(self, port: Port) -> Iterator[Path]:
        waiting: list[tuple[Port, _Trail | None]] = [(port, None)]
        while waiting:
            here, trail = waiting.pop()
            further: list[tuple[Port, _Trail | None]] = []
            for link in self._links.get(here, []):
                longer = _Trail(trail, link)
                if link.target in self.connectors:
                    yield longer.path()
                entry = Port(link.target, link.target_port)
                further += [(port, longer) for port in self._exits(entry)]
            waiting += reversed(further)

    def _exits(self, entry: Port) -> Iterator[Port]:
        """The outputs of a pipeline that an input leads to, directly or through streams. Each output once."""
        seen = {entry}
        waiting = [entry]
        while waiting:
            fresh = [port for port in self._within.get(waiting.pop(), []) if port not in seen]
            seen |= set(fresh)
            waiting += reversed(fresh)
            yield from dict.fromkeys(port for port in fresh if port not in self._within)

    def sinks_of(self, source: NodeId) -> frozenset[NodeId]:
        """All connectors that may get events of `source`, by any of its ports."""
        reached = _reach(self._outputs(source), self._forward)
        return frozenset(port.node for port in reached if self._is_input(port))

    def sources_of(self, sink: NodeId) -> frozenset[NodeId]:
        """All connectors that must stop reading while `sink` takes no events."""
        reached = _reach(self._inputs(sink), self._backward)
        return frozenset(port.node for port in reached if self._is_source(port))

    def stopped_by(self, source: NodeId) -> "Stops":
        return self.stops(self._outputs(source))

    def stops(self, begin: Iterable[Port]) -> "Stops":
        """What can stop events that leave by these ports."""
        whole = _reach(begin, {port: to for port, to in self._forward.items() if port not in self.choosers})
        sinks = frozenset(port.node for port in whole if self._is_input(port))
        return Stops(sinks, frozenset(port for port in whole if port in self.choosers))

    def sinks_behind(self, port: Port) -> frozenset[NodeId]:
        return frozenset(reached.node for reached in _reach([port], self._forward) if self._is_input(reached))

    def recalling(self, source: NodeId) -> NodeId | None:
        """The log that tells a source after a restart which of its events it still has. None where there are other
        sinks than the log: what the log has, they may not have got. Nor where an event may come to the log twice: it
        may have it once."""
        others = [reached for reached in self.sinks_of(source) if reached != source]
        known = len(others) == 1 and self.connectors[others[0]].connector.traits.positions
        return others[0] if known and self.sole_path(source, others[0]) else None

    def sinks_from(self, begin: Iterable[Port]) -> frozenset[NodeId]:
        """All connectors that may get events that leave by these ports, or come to these inputs."""
        return frozenset(port.node for port in _reach(begin, self._forward) if self._is_input(port))

    def places_from(self, begin: Iterable[Port]) -> frozenset[Port]:
        """All ports and places that these events pass, with those that sinks reject."""
        return frozenset(_reach(begin, self._forward))

    def accepted_from(self, begin: Iterable[Port]) -> frozenset[Port]:
        """All ports and places that these events pass unless a sink rejects them."""
        return frozenset(_reach(begin, {port: to for port, to in self._forward.items() if not self._is_input(port)}))

    def meet(self, begin: Sequence[Port]) -> bool:
        """Whether an event that goes to all of these ports may come to one connector or place by two of them."""
        if len(begin) < 2:
            return False
        reached = [
            {port.node if port.node in self.connectors else port for port in self.accepted_from([one])}
            for one in begin
        ]
        return len(set[object]().union(*reached)) < sum(map(len, reached))

    def outputs(self, node: NodeId) -> list[Port]:
        return self._outputs(node)

    def is_linked(self, node: NodeId, port: str) -> bool:
        return Port(node, port) in self._links

    def err_of(self, node: NodeId) -> list[Port]:
        """Its err port, if it has one."""
        return [port for port in self._outputs(node) if port.name == ERR]

    def exits(self, chooser: Port) -> list[Port]:
        return [Port(chooser.node, name) for name in self.choosers[chooser].exits]

    def places_of(self, source: NodeId) -> frozenset[Port]:
        """All ports and places that events of `source` pass."""
        return frozenset(_reach(self._outputs(source), self._forward))

    def behind_log(self, sink: NodeId) -> bool:
        """Whether a source that sends again is upstream. Such a source forgets what `sink` acks. An answer's event is
        acked once the answer is, so a log before what only answers counts."""
        waiting, seen = [sink], {sink}
        while waiting:
            for source in self.sources_of(waiting.pop()) - seen:
                connector = self.connectors[source].connector
                if connector.resends():
                    return True
                seen.add(source)
                if connector.traits.answers:
                    waiting.append(source)
        return False

    def sole_path(self, source: NodeId, sink: NodeId) -> bool:
        """Whether no event of `source` comes to `sink` by two ways. Also true if no event comes at all."""
        between = _reach(self._outputs(source), self._forward) & _reach(self._inputs(sink), self._backward)
        begins = [port for port in self._outputs(source) if port in between]
        parts = any(sum(to in between for to in self._forward.get(port, ())) > 1 for port in between)
        joins = any(sum(of in between for of in self._backward.get(port, ())) > 1 for port in between)
        return len(begins) <= 1 and not parts and not joins

    def straight(self, source: NodeId, sink: NodeId) -> bool:
        """Whether events of `source` come to `sink` by one way, of links and selects without state alone. So `sink`
        has settled what `source` has, and knows the position of each event."""
        return self.sole_path(source, sink) and not self.keeping(source, sink)

    def keeping(self, source: NodeId, sink: NodeId) -> frozenset[NodeId]:
        """What is between the two that may hold or keep events, make one of several, or pass on rejected ones."""
        between = _reach(self._outputs(source), self._forward) & _reach(self._inputs(sink), self._backward)
        rejecting = {port.node for port in between if port in self._keeping}
        return frozenset(rejecting | {port.node for port in between if port.node in self.connectors} - {source, sink})

    def logs_of(self, sink: NodeId) -> list[NodeId]:
        """The logs upstream: what gives events positions."""
        return [source for source in self.sources_of(sink) if self.connectors[source].connector.traits.positions]

    def is_straight(self, sink: NodeId) -> bool:
        """Whether there are logs upstream, and one straight way from each of them."""
        logs = self.logs_of(sink)
        return bool(logs) and all(self.straight(log, sink) for log in logs)

    def files_of(self, sink: NodeId) -> list[NodeId]:
        """The files upstream that are followed: what gives events offsets."""
        return [source for source in self.sources_of(sink) if self.connectors[source].connector.has_offsets()]

    def is_straight_from_files(self, sink: NodeId) -> bool:
        """Whether there are such files upstream, and one straight way from each of them."""
        files = self.files_of(sink)
        return bool(files) and all(self.straight(file, sink) for file in files)

    def logs_behind(self, path: Path) -> frozenset[NodeId]:
        """The logs whose events come by this path: its source, or, if the source is a sink that rejects, the logs
        before it."""
        if self.connectors[path.source].connector.resends():
            return frozenset({path.source})
        begin = [Port(path.source, path.links[0].source_port)]
        return frozenset(
            port.node
            for port in _reach(begin, self._backward)
            if self._is_source(port) and self.connectors[port.node].connector.resends()
        )

    def losing(self, source: NodeId, sink: NodeId) -> frozenset[NodeId]:
        """The pipelines, and the sinks that reject, between the two that may remove events from a block."""
        between = _reach(self._outputs(source), self._forward) & _reach(self._inputs(sink), self._backward)
        return frozenset(port.node for port in between if port in self._losing)

    def movable(self, log: NodeId) -> list[NodeId]:
        """The pipelines behind a log through which each of its events passes, one after the other, and which could do
        the same before it: they hold nothing, and each has one output."""
        found: list[NodeId] = []
        here = log
        while True:
            links = [
                link for (node, name), some in self._links.items() if node == here and name != ERR for link in some
            ]
            if len(links) != 1 or links[0].target in self.connectors or links[0].target in found:
                return found
            entry = Port(links[0].target, links[0].target_port)
            passed = _reach([entry], self._within) - {Port(entry.node, ERR)}
            if passed & self._keeping or len(self._backward[entry]) > 1:
                return found
            here = entry.node
            found.append(here)

    def _outputs(self, node: NodeId) -> list[Port]:
        return [Port(node, name) for name in self.connectors[node].connector.ports_used().outputs]

    def _inputs(self, node: NodeId) -> list[Port]:
        return [Port(node, name) for name in self.connectors[node].connector.ports_used().inputs]

    def _is_input(self, port: Port) -> bool:
        plan = self.connectors.get(port.node)
        return plan is not None and port.name in plan.connector.ports_used().inputs

    def _is_source(self, port: Port) -> bool:
        """Whether events of its own leave by this port. A sink with only `err` passes on events of others."""
        plan = self.connectors.get(port.node)
        outputs = plan.connector.ports_used().outputs if plan else ()
        return port.name in outputs and set(outputs) != {ERR}


def _reach(begin: Iterable[Port], edges: Mapping[Port, Sequence[Port]]) -> set[Port]:
    reached = set(begin)
    waiting = list(reached)
    while waiting:
        fresh = set(edges.get(waiting.pop(), ())) - reached
        reached |= fresh
        waiting += fresh
    return reached


def _reversed(edges: Edges) -> Edges:
    back: dict[Port, tuple[Port, ...]] = {}
    for port, targets in edges.items():
        for target in targets:
            back[target] = (*back.get(target, ()), port)
    return back
