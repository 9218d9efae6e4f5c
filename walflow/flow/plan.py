"""The checked graph that the runtime builds its nodes from."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from walflow.contract import Connector
from walflow.event import Codec, Framing


class NodeId(NamedTuple):
    """`str()` is `flow::name`, as logs and metrics have it."""

    flow: str
    kind: Literal["connector", "pipeline"]
    name: str

    def __str__(self) -> str:
        return f"{self.flow}::{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Of its metrics."""
        return {"flow": self.flow, "component": self.name, "kind": self.kind}


class Link(NamedTuple):
    source: NodeId
    source_port: str
    target: NodeId
    target_port: str


@dataclass(frozen=True)
class ConnectorPlan:
    """`codec` and the framings are None for a connector whose class forbids a codec. `preframing` frames what
    comes in, `postframing` what goes out."""

    id: NodeId
    kind: str  # the type named in the flow file: tcp_server
    connector: Connector
    codec: Codec | None
    preframing: Framing | None
    postframing: Framing | None

    @property
    def labels(self) -> dict[str, str]:
        """Of its metrics."""
        return {**self.id.labels, "type": self.kind}


class Select(NamedTuple):
    """`select event from SOURCE into TARGET;` within one pipeline. Both are ports of the pipeline for now."""

    source: str
    target: str


@dataclass(frozen=True)
class PipelinePlan:
    id: NodeId
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    selects: tuple[Select, ...]


@dataclass(frozen=True)
class Assembly:
    """All deployed flows together: a checked graph."""

    connectors: tuple[ConnectorPlan, ...]
    pipelines: tuple[PipelinePlan, ...]
    links: tuple[Link, ...]
