"""The lanes below a log: which of its sinks can be reached apart. The graph alone decides it.

The *stem* is what lies behind the log's `out` and keeps, holds and chooses nothing: links, selects, scripts without
`state`. The first sink, operator or place with state on each way is an *entry*. Entries from which events come to a
common connector or place are one *lane*, because that place may wait for all of them. The ways of rejected events
(the `err` of a sink) join no lanes, else one file for rejected events would join all.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from walflow.lang.config import NodeId
from walflow.plan.assembly import Assembly, PipelinePlan
from walflow.plan.graph import Graph, Port
from walflow.plan.regions import is_plain


class LanePlan(NamedTuple):
    """`entries`: the places at which it begins. `sinks`: the connectors that its events come to, in file order."""

    name: str
    entries: frozenset[Port]
    sinks: tuple[NodeId, ...]

    @property
    def ackers(self) -> Sequence[str]:
        """The names under which a log remembers what the lane has acked."""
        return [sink.name for sink in self.sinks] or _in_full(self.entries)


class Stem:
    """Where events go from each place of the stems."""

    def __init__(self, assembly: Assembly) -> None:
        self._pipelines = {plan.id: plan for plan in assembly.pipelines}
        self._links: dict[Port, list[Port]] = defaultdict(list)
        for link in assembly.links:
            self._links[Port(link.source, link.source_port)].append(Port(link.target, link.target_port))

    def entries(self, begin: Port) -> list[Port]:
        """The entries behind a port, in the order of the links."""
        found: dict[Port, None] = {}
        seen = {begin}
        waiting = [begin]
        while waiting:
            here = waiting.pop(0)
            if here != begin and self._is_entry(here):
                found[here] = None
                continue
            fresh = [port for port in self._onward(here) if port not in seen]
            seen |= set(fresh)
            waiting += dict.fromkeys(fresh)
        return list(found)

    def _is_entry(self, port: Port) -> bool:
        plan = self._pipelines.get(port.node)
        if plan is None:
            return True  # an input of a connector
        if any(operator.name == port.name for operator in plan.operators):
            return True
        return self._is_region(plan, port.name) and bool(plan.regions[port.name].keeps)

    def _onward(self, port: Port) -> list[Port]:
        plan = self._pipelines.get(port.node)
        if plan is None or port.name not in plan.places:
            return self._links.get(port, [])
        if not self._is_region(plan, port.name):
            return [Port(plan.id, select.target) for select in plan.selects_from(port.name)]
        exits = [*plan.regions[port.name].exits, plan.err_port(port.name)]
        return [Port(plan.id, exit) for exit in exits]

    def _is_region(self, plan: PipelinePlan, name: str) -> bool:
        selects = plan.selects_from(name)
        return bool(selects) and not is_plain(plan, selects)


def lanes(assembly: Assembly, graph: Graph, log: NodeId) -> Sequence[LanePlan]:
    """In the order of the links. None if the connector sends to all its sinks together by its configuration."""
    if not graph.connectors[log].connector.parts():
        return ()
    groups: list[tuple[set[Port], set[object]]] = []  # entries, and what they come to
    for entry in Stem(assembly).entries(Port(log, "out")):
        entries, reached = {entry}, _reached(graph, entry)
        for other in [one for one in groups if not one[1].isdisjoint(reached)]:
            groups.remove(other)
            entries |= other[0]
            reached |= other[1]
        groups.append((entries, reached))
    order = list(graph.connectors)
    found = [
        (entries, tuple(sorted((one for one in reached if isinstance(one, NodeId)), key=order.index)))
        for entries, reached in groups
    ]
    plain = ["+".join(node.name for node in sinks) for _, sinks in found]
    return [
        LanePlan(name if name and plain.count(name) == 1 else "+".join(_in_full(entries)), frozenset(entries), sinks)
        for (entries, sinks), name in zip(found, plain, strict=True)
    ]


def _reached(graph: Graph, entry: Port) -> set[object]:
    """The connectors that events come to, and the places of pipelines that they pass."""
    return {port.node if port.node in graph.connectors else port for port in graph.accepted_from([entry])}


def _in_full(entries: Iterable[Port]) -> Sequence[str]:
    return sorted(f"{port.node}/{port.name}" for port in entries)
