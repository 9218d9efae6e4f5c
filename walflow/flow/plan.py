"""The checked graph that the runtime builds its nodes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from walflow.contract import Connector
from walflow.diagnostics import Span
from walflow.event import Codec, Framing
from walflow.expr.compile import Expression


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
    comes in, `postframing` what goes out. `defined` and `settings`: where it and each value of its `config` are
    written."""

    id: NodeId
    kind: str  # the type named in the flow file: tcp_server
    connector: Connector
    codec: Codec | None
    preframing: Framing | None
    postframing: Framing | None
    defined: Span | None = field(default=None, compare=False, repr=False)
    settings: Mapping[str | int, Span] = field(default_factory=dict[str | int, Span], compare=False, repr=False)

    @property
    def labels(self) -> dict[str, str]:
        """Of its metrics."""
        return {**self.id.labels, "type": self.kind}


class Select(NamedTuple):
    """`select WHAT from SOURCE where WHERE into TARGET having HAVING;` within one pipeline: from an input or a stream into an
    output or a stream. `what` is None for `event` as it is, `where` and `having` for no condition."""

    source: str
    target: str
    what: Expression | None = None
    where: Expression | None = None
    having: Expression | None = None

    @property
    def plain(self) -> bool:
        """All events pass as they are."""
        return self.what is None and self.where is None and self.having is None


@dataclass(frozen=True)
class PipelinePlan:
    """Streams lie between selects; none has the name of a port, and none leads back to itself."""

    id: NodeId
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    selects: tuple[Select, ...]
    streams: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Of its metrics."""
        return {**self.id.labels, "type": "pipeline"}


@dataclass(frozen=True)
class Assembly:
    """All deployed flows together: a checked graph."""

    connectors: tuple[ConnectorPlan, ...]
    pipelines: tuple[PipelinePlan, ...]
    links: tuple[Link, ...]
