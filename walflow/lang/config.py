"""What the deployed flows declare, whichever language said it: data with spans, everything worked out.

Nothing here knows a connector's class: whether a type, a key of its `config` or a port exists is found out by
`walflow.plan`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from walflow.compile.constant import ConstantPart
from walflow.compile.nodes import Name
from walflow.compile.program import ScriptOf
from walflow.compile.resolve import Expression
from walflow.diagnostics import Span


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


@dataclass(frozen=True)
class ConnectorConfig:
    """`settings`: what stands behind `with` in its definition, `config` among it. `complete`: all of it could be
    worked out. `defined` and `created` are where it is named."""

    id: NodeId
    type: Name
    settings: Mapping[str, ConstantPart]
    complete: bool
    defined: Span
    created: Span


@dataclass(frozen=True)
class OperatorConfig:
    """`name` stands where it is created, `kind` is `qos::wal`. `settings`: what stands behind `with` in its
    definition, or in its creation, which counts before. `complete`: all of it could be worked out."""

    name: Name
    kind: Name
    settings: Mapping[str, ConstantPart]
    complete: bool
    defined: Span

    @property
    def created(self) -> Span:
        return self.name.span


@dataclass(frozen=True)
class SelectConfig:
    """`source` is an input, a stream or an operator, `target` an output, a stream or an operator; the ports are
    those of the operator, None where it is the usual one (`out` of a source, `in` of a target). `what` is None for
    `event` as it is, `where` and `having` for no condition."""

    source: Name
    target: Name
    what: Expression | None = None
    where: Expression | None = None
    having: Expression | None = None
    source_port: Name | None = None
    target_port: Name | None = None
    span: Span | None = None


class Uncreated(NamedTuple):
    """`what`: operator, script."""

    what: str
    name: Name


@dataclass(frozen=True)
class ScriptConfig:
    """`script` is None where something in it is wrong, which has been reported. `inputs`: what it does with events that come
    by ports of their own."""

    name: Name
    script: ScriptOf | None
    inputs: Mapping[str, ScriptOf] = field(default_factory=dict[str, ScriptOf])


@dataclass(frozen=True)
class PipelineConfig:
    """`inputs` and `outputs` are None where the definition leaves them to the defaults. `whole`: no statement in it
    got lost to an error that was reported. `uncreated`: operators and scripts that are defined in it and never created."""

    id: NodeId
    inputs: tuple[Name, ...] | None
    outputs: tuple[Name, ...] | None
    streams: tuple[Name, ...]
    selects: tuple[SelectConfig, ...]
    whole: bool
    defined: Span
    created: Span
    operators: tuple[OperatorConfig, ...] = ()
    scripts: tuple[ScriptConfig, ...] = ()
    uncreated: tuple[Uncreated, ...] = ()


@dataclass(frozen=True)
class LinkEnd:
    """`port` is None for the default: `out` of a source, `in` of a target."""

    node: NodeId
    port: Name | None
    span: Span


@dataclass(frozen=True)
class LinkConfig:
    source: LinkEnd
    target: LinkEnd
    span: Span


@dataclass(frozen=True)
class Flow:
    """One deployment. `whole`: nothing in it got lost to an error that was reported."""

    alias: str
    connectors: tuple[ConnectorConfig, ...]
    pipelines: tuple[PipelineConfig, ...]
    links: tuple[LinkConfig, ...]
    whole: bool
    span: Span


@dataclass(frozen=True)
class FlowConfig:
    """`sound`: nothing was wrong with what declared it, so what is missing in it was never meant to be there."""

    flows: tuple[Flow, ...]
    sound: bool = True
