"""Flows that feed themselves.

Events that go in a circle through pipelines alone would never leave one call. Events that go in a circle through a
log are stored and sent again without end, so one event becomes as many as the disk holds. Both are errors. The second
one may be intended (`--allow-cycles`).

A cycle continues through pipelines, logs and buffers (`forwards`), and ends at every other connector. So an echo to a
`tcp_server` is no cycle. An `err` port closes no cycle through a log, because an error that is itself rejected is not
sent to `err` again. What a `select` sends into `err` is an event like any other.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from walflow.diagnostics import Report, Span, circle, error, in_a_row
from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, Assembly, Link, PipelinePlan
from walflow.plan.graph import Port

Edges = Mapping[Port, Sequence[Port]]


class _Loop(NamedTuple):
    """`closing`: the link of the cycle that is last in the file."""

    nodes: Sequence[NodeId]
    closing: Link


def check_cycles(assembly: Assembly, written: Mapping[Link, Span], report: Report, *, allowed: bool) -> None:
    """`written`: the place of each link in the flow files. `allowed`: cycles through a log are allowed."""
    in_line = list(_loops(_in_line(assembly), written))
    for loop in in_line:
        names = in_a_row([node.name for node in (*loop.nodes, loop.nodes[0])])
        report(error(f"these pipelines are linked in a circle: {names}", written[loop.closing]))
    if in_line or allowed:
        return
    for loop in _loops(_through_logs(assembly), written):
        connectors = [node.name for node in loop.nodes if node.kind == "connector"]
        message = f"this flow feeds itself: what leaves the log `{connectors[0]}` comes back to it"
        hint = f"{circle([node.name for node in loop.nodes])}\nwhere this is meant: `--allow-cycles`"
        report(error(message, written[loop.closing], hint))


# ---- where events go on


def _in_line(assembly: Assembly) -> Edges:
    """The links within one call, also those of events that a pipeline rejects."""
    edges = _within(assembly.pipelines)
    for pipeline in assembly.pipelines:
        for name in pipeline.places:
            if err := pipeline.err_from(name):
                edges[Port(pipeline.id, name)].append(Port(pipeline.id, err))
    return _linked(edges, assembly.links)


def _through_logs(assembly: Assembly) -> Edges:
    edges = _within(assembly.pipelines)
    for plan in assembly.connectors:
        if plan.connector.traits.forwards:
            ports = plan.connector.ports_used()
            outputs = [Port(plan.id, name) for name in ports.outputs if name != ERR]
            edges.update({Port(plan.id, name): outputs for name in ports.inputs})
    return _linked(edges, assembly.links)


def _within(pipelines: Sequence[PipelinePlan]) -> dict[Port, list[Port]]:
    edges: dict[Port, list[Port]] = defaultdict(list)
    for pipeline in pipelines:
        for select in pipeline.selects:
            edges[Port(pipeline.id, select.source)].append(Port(pipeline.id, select.target))
        for name, exits in pipeline.through.items():
            edges[Port(pipeline.id, name)] += [Port(pipeline.id, exit) for exit in exits]
    return edges


def _linked(edges: dict[Port, list[Port]], links: Sequence[Link]) -> Edges:
    for link in links:
        edges[Port(link.source, link.source_port)].append(Port(link.target, link.target_port))
    return edges


# ---- loops


def _loops(edges: Edges, written: Mapping[Link, Span]) -> Iterator[_Loop]:
    """One cycle of each group of connected ports: the shortest one that contains its last link."""
    knot_of = {port: number for number, knot in enumerate(_knots(edges)) for port in knot}
    closing: dict[int, Link] = {}
    for link in sorted(written, key=lambda link: written[link].start):
        source, target = _ends(link)
        knot = knot_of.get(source)
        if knot is not None and knot == knot_of.get(target):
            closing[knot] = link
    for link in closing.values():
        source, target = _ends(link)
        way = _shortest(target, source, edges)
        nodes = [port.node for port in way]
        yield _Loop([node for before, node in zip([None, *nodes], nodes, strict=False) if node != before], link)


def _ends(link: Link) -> tuple[Port, Port]:
    return Port(link.source, link.source_port), Port(link.target, link.target_port)


def _shortest(begin: Port, end: Port, edges: Edges) -> Sequence[Port]:
    before: dict[Port, Port | None] = {begin: None}
    waiting = deque([begin])
    while end not in before:
        here = waiting.popleft()
        for port in edges.get(here, ()):
            if port not in before:
                before[port] = here
                waiting.append(port)
    way = [end]
    while (earlier := before[way[-1]]) is not None:
        way.append(earlier)
    return way[::-1]


def _knots(edges: Edges) -> Iterator[Sequence[Port]]:
    """Groups of ports that lead to each other: Tarjan's strongly connected components, without recursion."""
    index: dict[Port, int] = {}
    low: dict[Port, int] = {}
    open_: dict[Port, None] = {}  # in the order they were found
    for begin in list(edges):
        if begin in index:
            continue
        waiting: list[tuple[Port, Iterator[Port]]] = []

        def enter(port: Port) -> None:
            index[port] = low[port] = len(index)
            open_[port] = None
            waiting.append((port, iter(edges.get(port, ()))))  # noqa: B023  # called before the next turn

        enter(begin)
        while waiting:
            here, ways = waiting[-1]
            port = next(ways, None)
            if port is None:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    low[above] = min(low[above], low[here])
                if low[here] == index[here]:
                    knot = [open_.popitem()[0]]
                    while knot[-1] != here:
                        knot.append(open_.popitem()[0])
                    if len(knot) > 1:
                        yield knot
            elif port not in index:
                enter(port)
            elif port in open_:
                low[here] = min(low[here], index[port])
