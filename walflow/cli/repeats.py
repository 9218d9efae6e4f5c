"""Which sinks recognise what a log, or a followed file, sends again, and what of a way takes that from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from walflow.contract import Connector, Guarantee
from walflow.plan import NodeId
from walflow.plan.graph import Graph


def recognises(source: NodeId, sink: NodeId, words: Mapping[NodeId, Guarantee], graph: Graph) -> bool:
    """Whether the sink is a log, or has a frontier, and does not store again what the source,
    a log or a file upstream, sends again."""
    knows = graph.connectors[sink].connector
    if not (words[sink].once and (knows.traits.positions or knows.traits.frontier)):
        return False
    if knows.traits.frontier:
        return graph.connectors[source].connector.traits.positions and graph.is_straight(sink)
    if graph.connectors[source].connector.traits.positions:
        return graph.is_straight(sink)
    return graph.connectors[source].connector.has_offsets() and graph.is_straight_from_files(sink)


def stored_again(log: NodeId, words: Mapping[NodeId, Guarantee], graph: Graph) -> list[str]:
    """Why an event of a source may be in this log twice, at two positions: here, or in one before it in a row."""
    reasons: list[str] = []
    for before, into in ways_in(log, graph):
        if recognises(before, into, words, graph):
            continue
        if graph.connectors[before].connector.resends():
            again = f"events that {before.name} sends again after a crash or a failure"
            reasons.append(f"{again} are stored in {into.name} again, as other events")
        elif not graph.sole_path(before, into):
            reasons.append(
                f"there are several ways from {before.name} to {into.name}, which stores an event by each of them"
            )
    return reasons


def ways_in(log: NodeId, graph: Graph) -> list[tuple[NodeId, NodeId]]:
    """(source, log) of each way into it, and into the logs and buffers before it in a row."""
    found: list[tuple[NodeId, NodeId]] = []
    logs = [log]
    for into in logs:  # it grows
        for before in sorted(graph.sources_of(into)):
            found.append((before, into))
            if graph.connectors[before].connector.traits.forwards and before not in logs:
                logs.append(before)
    return found


class WayFromLog(NamedTuple):
    """From a log, or a file that is followed, to a sink that recognises repeats."""

    log: NodeId
    sink: NodeId
    graph: Graph

    @property
    def source(self) -> Connector:
        return self.graph.connectors[self.log].connector

    @property
    def to_a_log(self) -> bool:
        return self.graph.connectors[self.sink].connector.traits.positions

    @property
    def to_a_frontier(self) -> bool:
        return self.graph.connectors[self.sink].connector.traits.frontier


@dataclass(frozen=True)
class RepeatClause:
    """`says`: what of a way of which it `holds` takes the positions away; nothing, if all of it keeps them."""

    holds: Callable[[WayFromLog], bool]
    says: Callable[[WayFromLog], list[str]]


def _no_positions(way: WayFromLog) -> list[str]:
    why = way.source.why_no_offsets()
    return [f"{way.log.name} gives events no positions" + (f": {why}" if why else "")]


def _lost_on_the_way(way: WayFromLog) -> list[str]:
    losing = listed(sorted(way.graph.losing(way.log, way.sink)))
    return [f"{losing} may take events out of a block from {way.log.name}; this sink then cannot recognise a repeat"]


TAKEN_AWAY: Final[Sequence[RepeatClause]] = (  # the first that holds
    RepeatClause(lambda way: way.source.has_offsets() and way.to_a_log, lambda way: _bent(*way)),
    RepeatClause(lambda way: not way.source.traits.positions, _no_positions),
    RepeatClause(
        lambda way: not way.graph.sole_path(way.log, way.sink),
        lambda way: [f"several ways lead here from {way.log.name}"],
    ),
    RepeatClause(lambda way: way.to_a_log or way.to_a_frontier, lambda way: _bent(*way)),
    RepeatClause(lambda way: bool(way.graph.losing(way.log, way.sink)), _lost_on_the_way),
)


def taken_away(way: WayFromLog) -> list[str]:
    """The parts of the way that take away the positions by which the sink recognises events."""
    for clause in TAKEN_AWAY:
        if clause.holds(way):
            return clause.says(way)
    return []


def _bent(log: NodeId, sink: NodeId, graph: Graph) -> list[str]:
    """Why a log that has one way from another one does not know what that one sends again."""
    if between := graph.keeping(log, sink):
        which = listed(sorted(between))
        return [
            (
                f"{which} may hold events, make one of several or reject them; "
                f"{sink.name} then does not know their positions"
            )
        ]
    alike = graph.logs_of(sink) if graph.connectors[log].connector.traits.positions else graph.files_of(sink)
    others = [source for source in sorted(alike) if not graph.straight(source, sink)]
    return [f"it knows no positions, because of the way from {listed(others)}"] if others else []


def listed(nodes: Sequence[NodeId], last: str = "and") -> str:
    names = [node.name for node in nodes]
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)
