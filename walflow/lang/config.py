"""What the deployed flows declare, in either language: data with spans, everything evaluated.

Nothing here knows the class of a connector. `walflow.plan` finds out whether a type, a key of its `config` or a port
exists.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct, field

from walflow.compile.constant import Constant, ConstantPart
from walflow.compile.nodes import Name
from walflow.compile.program import ScriptOf, WindowsOf
from walflow.compile.resolve import Expression
from walflow.diagnostics import Source, Span
from walflow.lang.allow import Allowances
from walflow.lang.environment import Environment


class NodeId(NamedTuple):
    """`str()` is `flow::name`, as in logs and metrics."""

    flow: str
    kind: Literal["connector", "pipeline"]
    name: str

    def __str__(self) -> str:
        return f"{self.flow}::{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its metrics."""
        return {"flow": self.flow, "component": self.name, "kind": self.kind}


class ConnectorConfig(Struct, frozen=True):
    """`settings`: the keys after `with` in its definition, `config` among them. `complete`: all of them could be
    evaluated. `defined` and `created`: the places of its names."""

    id: NodeId
    type: Name
    settings: Mapping[str, ConstantPart]
    complete: bool
    defined: Span
    created: Span


class OperatorConfig(Struct, frozen=True):
    """`name`: the place where it is created. `kind`: for example `qos::wal`. `settings`: the keys after `with` in its
    definition and in its creation, which override the others. `complete`: all of them could be evaluated."""

    name: Name
    kind: Name
    settings: Mapping[str, ConstantPart]
    complete: bool
    defined: Span

    @property
    def created(self) -> Span:
        return self.name.span


class SelectConfig(Struct, frozen=True):
    """`source` is an input, a stream or an operator, `target` an output, a stream or an operator. The ports are those
    of an operator; None means the default (`out` of a source, `in` of a target). `what` is None for `event`
    unchanged, `where` and `having` are None for no condition."""

    source: Name
    target: Name
    what: Expression | None = None
    where: Expression | None = None
    having: Expression | None = None
    source_port: Name | None = None
    target_port: Name | None = None
    span: Span | None = None
    windows: WindowsOf | None = None


class Uncreated(NamedTuple):
    """`what`: "operator", "script" or "pipeline"."""

    what: str
    name: Name


class ScriptConfig(Struct, frozen=True):
    """`script` is None if it has an error, which was reported. `inputs`: the scripts for events that come by ports of
    their own."""

    name: Name
    script: ScriptOf | None
    inputs: Mapping[str, ScriptOf] = field(default_factory=dict[str, ScriptOf])


class EngineConfig(NamedTuple):
    """What the head of a pipeline says of where it runs.
    `hosted`: not in the daemon. `said`: it names an engine at all."""

    hosted: bool
    said: bool
    settings: Constant | None


class PipelineConfig(Struct, frozen=True):
    """`inputs` and `outputs` are None if the definition leaves them to the defaults. `whole`: no statement was lost
    to an error that was reported. `uncreated`: what is defined in it and never created.
    `pipelines`: those within it."""

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
    engine: EngineConfig | None = None
    pipelines: "tuple[NestedConfig, ...]" = ()


class NestedConfig(Struct, frozen=True):
    """A pipeline within a pipeline. `pipeline` is None where something in it is wrong, which has been reported."""

    name: Name
    pipeline: PipelineConfig | None


class LinkEnd(Struct, frozen=True):
    """`port` is None for the default: `out` of a source, `in` of a target."""

    node: NodeId
    port: Name | None
    span: Span


class LinkConfig(Struct, frozen=True):
    source: LinkEnd
    target: LinkEnd
    span: Span


class Flow(Struct, frozen=True):
    """One deployment. `whole`: no part was lost to an error that was reported."""

    alias: str
    connectors: tuple[ConnectorConfig, ...]
    pipelines: tuple[PipelineConfig, ...]
    links: tuple[LinkConfig, ...]
    whole: bool
    span: Span


class FlowConfig(Struct, frozen=True):
    """`sound`: the files have no error. So what is missing in it was not declared. `allowances`: the warnings that
    the files want. `environment`: what they take from outside.
    `sources`: the files, and the modules that they use."""

    flows: tuple[Flow, ...]
    sound: bool = True
    allowances: Allowances = field(default_factory=Allowances)
    environment: Environment = field(default_factory=Environment)
    sources: tuple[Source, ...] = ()
