"""The parts of a picture, for all formats."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from walflow.cli.promises import promises
from walflow.plan import Assembly, ConnectorPlan, Link, NodeId
from walflow.plan.assembly import ERR
from walflow.plan.graph import Graph, Port
from walflow.plan.lanes import lanes

LANES: Final = ("#0969da", "#bf3989", "#1a7f37", "#bc4c00", "#8250df", "#1b7c83")  # seen on white and on black


def colour(lane: int) -> str:
    """Of the arrows of a lane. With more lanes than colours they begin again; the labels tell them apart."""
    return LANES[lane % len(LANES)]


class Role(Enum):
    """What a node does with events. `LOG`: one ack domain ends in it and the next begins."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "both"
    LOG = "log"
    PIPELINE = "pipeline"


class Box(NamedTuple):
    """`kind`: the connector's type, empty for a pipeline."""

    node: NodeId
    role: Role
    kind: str

    @property
    def lines(self) -> tuple[str, ...]:
        """What is written in it."""
        return (self.node.name, self.kind) if self.kind else (self.node.name,)


class Arrow(NamedTuple):
    """`label`: the ports that are not the usual ones, and the name of a lane where it parts from the others. `err`:
    what was rejected goes along it. `lane`: the number of the lane, if the events of one lane alone go along it."""

    source: NodeId
    target: NodeId
    label: str
    err: bool
    lane: int | None


class Picture(NamedTuple):
    """`captions`: what the arrows do not show, a sentence each."""

    flows: dict[str, list[Box]]
    arrows: list[Arrow]
    captions: Sequence[str]


def picture(assembly: Assembly) -> Picture:
    used = {(link.source, link.source_port) for link in assembly.links}
    fed = {link.target for link in assembly.links}
    flows: dict[str, list[Box]] = {}
    for plan in assembly.connectors:
        sends = any((plan.id, port) in used for port in plan.connector.ports_used().outputs)
        box = Box(plan.id, _role(plan, sends=sends, takes=plan.id in fed), plan.kind)
        flows.setdefault(plan.id.flow, []).append(box)
    for pipeline in assembly.pipelines:
        flows.setdefault(pipeline.id.flow, []).append(Box(pipeline.id, Role.PIPELINE, ""))
    return Picture(flows, _arrows(assembly), promises(assembly).stops)


def _role(plan: ConnectorPlan, *, sends: bool, takes: bool) -> Role:
    if plan.connector.traits.forwards:
        return Role.LOG
    if sends and takes:
        return Role.BOTH
    return Role.SINK if takes else Role.SOURCE


def _arrows(assembly: Assembly) -> list[Arrow]:
    graph = Graph(assembly)
    found = {plan.id: lanes(assembly, graph, plan.id) for plan in assembly.connectors}
    numbered = [lane for of_one in found.values() if len(of_one) > 1 for lane in of_one]
    behind = [graph.accepted_from([Port(log, "out")]) for log, of_one in found.items() if len(of_one) > 1]

    def lanes_of(port: Port) -> list[int]:
        """The lanes whose events are at this port."""
        if not any(port in ports for ports in behind):
            return []
        reached = graph.accepted_from([port])
        return [
            number
            for number, lane in enumerate(numbered)
            if not lane.entries.isdisjoint(reached) or port in graph.accepted_from(lane.entries)
        ]

    def arrow(link: Link) -> Arrow:
        source, target = Port(link.source, link.source_port), Port(link.target, link.target_port)
        ports = [port for port, usual in ((source.name, "out"), (target.name, "in")) if port != usual]
        before = lanes_of(source)
        at = lanes_of(target) if before else []
        lane = at[0] if len(at) == 1 else None
        parted = [f"lane {numbered[lane].name}"] if lane is not None and len(before) > 1 else []
        label = ", ".join([*filter(None, [" to ".join(ports)]), *parted])
        return Arrow(link.source, link.target, label, link.source_port == ERR, lane)

    return [arrow(link) for link in assembly.links]
