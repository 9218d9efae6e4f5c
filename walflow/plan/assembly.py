"""The checked graph that the runtime builds its nodes from."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from walflow.compile.program import ScriptOf, WindowsOf
from walflow.compile.region import input_place
from walflow.compile.resolve import Expression
from walflow.contract import Connector, Ports
from walflow.diagnostics import Source, Span
from walflow.event import Codec
from walflow.framing import Incoming, Outgoing
from walflow.lang.allow import Allowances
from walflow.lang.config import NodeId
from walflow.lang.environment import Environment
from walflow.operators import Operator
from walflow.plan.regions import RegionTable

ERR = "err"


class Link(NamedTuple):
    source: NodeId
    source_port: str
    target: NodeId
    target_port: str


@dataclass(frozen=True)
class ConnectorPlan:
    """`codec` and the framings are None for a connector whose class forbids a codec. `preframing` cuts the input into
    events, `postframing` frames the output. `defined` is the place of the definition, `settings` the place of each
    value of its `config`."""

    id: NodeId
    kind: str  # the type that the flow file names: tcp_server
    connector: Connector
    codec: Codec | None
    preframing: Incoming | None
    postframing: Outgoing | None
    defined: Span | None = field(default=None, compare=False, repr=False)
    settings: Mapping[str | int, Span] = field(default_factory=dict[str | int, Span], compare=False, repr=False)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its metrics."""
        return {**self.id.labels, "type": self.kind}


class PlannedSelect(NamedTuple):
    """`select WHAT from SOURCE where WHERE into TARGET having HAVING;` within one pipeline. The source is an input, a
    stream or an output of an operator (`batch/out`). The target is an output, a stream or an operator (`batch`).
    `what` is None for `event` unchanged, `where` and `having` are None for no condition."""

    source: str
    target: str
    what: Expression | None = None
    where: Expression | None = None
    having: Expression | None = None
    span: Span | None = None
    windows: WindowsOf | None = None

    @property
    def plain(self) -> bool:
        """Whether all events pass unchanged."""
        return self.what is None and self.where is None and self.having is None and self.windows is None


@dataclass(frozen=True)
class OperatorPlan:
    """An operator that the runtime makes a node of. `kind`: its type, for example qos::wal. Events come to it at the
    place NAME and leave it at `NAME/PORT`. `run_as`: the operator ends an ack domain, so it runs as this connector
    within its pipeline."""

    name: str
    kind: str
    operator: Operator
    created: Span = field(compare=False, repr=False)
    run_as: ConnectorPlan | None = None

    @property
    def ports(self) -> Ports:
        return self.operator.ports_used()

    @property
    def exits(self) -> tuple[str, ...]:
        return tuple(f"{self.name}/{port}" for port in self.ports.outputs)


class ScriptPlan(NamedTuple):
    """Events come to it at the place NAME, or at the place of one of its `inputs`, and leave it at `NAME/PORT`. It is
    compiled together with the selects around it."""

    name: str
    script: ScriptOf
    inputs: Mapping[str, ScriptOf]

    @property
    def ports(self) -> Ports:
        return script_ports(self.script, self.inputs)

    @property
    def places(self) -> Mapping[str, ScriptOf]:
        """The places at which events come to it, each with the script that runs there."""
        return {input_place(self.name, port): script for port, script in {"in": self.script, **self.inputs}.items()}

    @property
    def exits(self) -> tuple[str, ...]:
        return tuple(f"{self.name}/{port}" for port in self.ports.outputs)


def script_ports(script: ScriptOf, inputs: Mapping[str, ScriptOf]) -> Ports:
    """The ports that the script emits to, and `err`."""
    outputs = [port for one in (script, *inputs.values()) for port in one.ports]
    return Ports(("in", *inputs), tuple(dict.fromkeys([*outputs, "err"])))


class StateDomain(NamedTuple):
    """The places of a pipeline whose events are acked once they are in its state and the results are in a buffer.
    `keeps`: the nodes that keep state. `err`: the port of events that are rejected there. `buffers`: the connectors
    that hold the results."""

    places: frozenset[str]
    keeps: tuple[str, ...]
    err: str
    buffers: tuple[NodeId, ...]


@dataclass(frozen=True)
class PipelinePlan:
    """Streams, scripts and operators stand between selects. None of them has the name of a port, and none leads back
    to itself. `domain`: the part that keeps state from one event to the next, see walflow.plan.domains. `errs`: for
    some places, the place that an event goes to if it is rejected there. They are of pipelines within this one whose
    `err` is read; an event that is rejected elsewhere leaves by `err`.
    """

    id: NodeId
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    selects: tuple[PlannedSelect, ...]
    streams: tuple[str, ...] = ()
    operators: tuple[OperatorPlan, ...] = ()
    scripts: tuple[ScriptPlan, ...] = ()
    domain: "StateDomain | None" = None
    errs: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its metrics."""
        return {**self.id.labels, "type": "pipeline"}

    def err_port(self, place: str) -> str:
        """The port of events that are rejected at this place, if no place takes them."""
        return self.domain.err if self.domain is not None and place in self.domain.places else ERR

    def err_from(self, place: str) -> str | None:
        """The place or the port that an event goes to if it is rejected at this place. None: no port takes it."""
        port = self.err_port(place)
        return self.errs.get(place) or (port if port in self.outputs else None)

    @property
    def may_reject(self) -> bool:
        """Whether one of its parts can fail for an event."""
        return bool(self.scripts) or any(not select.plain for select in self.selects)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that a select may read from, and the names of scripts and operators."""
        exits = dict.fromkeys(exit for exits in self.through.values() for exit in exits)
        return (*self.inputs, *self.streams, *self.through, *exits)

    @property
    def through(self) -> Mapping[str, tuple[str, ...]]:
        """The scripts and operators, each with the places at which events leave it."""
        scripts = {place: one.exits for one in self.scripts for place in one.places}
        return {one.name: one.exits for one in self.operators} | scripts

    @cached_property
    def _selects_by_source(self) -> Mapping[str, Sequence[PlannedSelect]]:
        found: dict[str, list[PlannedSelect]] = defaultdict(list)
        for select in self.selects:
            found[select.source].append(select)
        return found

    @cached_property
    def regions(self) -> RegionTable:
        return RegionTable(self)

    def selects_from(self, place: str) -> Sequence[PlannedSelect]:
        return self._selects_by_source.get(place, ())


@dataclass(frozen=True)
class Assembly:
    """All deployed flows together, as a checked graph. `written`: the places where a node is defined and created.
    `allowances`: the warnings that the files want. `environment`: what they take from outside. `sources`:
    the files, and the modules that they use."""

    connectors: tuple[ConnectorPlan, ...]
    pipelines: tuple[PipelinePlan, ...]
    links: tuple[Link, ...]
    written: Mapping[NodeId, Sequence[Span]] = field(
        default_factory=dict[NodeId, Sequence[Span]], compare=False, repr=False, hash=False
    )
    allowances: Allowances = field(default_factory=Allowances, compare=False, repr=False, hash=False)
    environment: Environment = field(default_factory=Environment, compare=False, repr=False, hash=False)
    sources: tuple[Source, ...] = field(default=(), compare=False, repr=False, hash=False)

    def places_of(self, node: NodeId) -> Sequence[Span]:
        """Of a node that is within a pipeline also those of the pipeline."""
        whole = NodeId(node.flow, "pipeline", node.name.split("/")[0])
        return [*self.written.get(node, ()), *(self.written.get(whole, ()) if "/" in node.name else ())]
