"""The parts of a picture, for all formats."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from walflow.cli.promises import promises
from walflow.plan import Assembly, ConnectorPlan, Link, NodeId
from walflow.plan.assembly import ERR


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
    """`label`: the ports that are not the usual ones. `err`: what was rejected goes along it."""

    source: NodeId
    target: NodeId
    label: str
    err: bool


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
    return Picture(flows, [_arrow(link) for link in assembly.links], promises(assembly).stops)


def _role(plan: ConnectorPlan, *, sends: bool, takes: bool) -> Role:
    if plan.connector.forwards:
        return Role.LOG
    if sends and takes:
        return Role.BOTH
    return Role.SINK if takes else Role.SOURCE


def _arrow(link: Link) -> Arrow:
    ports = [port for port, usual in ((link.source_port, "out"), (link.target_port, "in")) if port != usual]
    return Arrow(link.source, link.target, " to ".join(ports), link.source_port == ERR)
