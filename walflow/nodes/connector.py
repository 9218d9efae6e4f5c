"""The nodes of one connector."""

from dataclasses import dataclass, field

from walflow.nodes.health import Health
from walflow.nodes.sink import SinkNode
from walflow.nodes.source import SourceNode
from walflow.plan import ConnectorPlan


@dataclass(frozen=True)
class ConnectorNodes:
    """The two halves of a connector, `source` and `sink`. A half may have no links. `pushes`: it is a source of
    streams, and cannot send again what it has read; nor are these answers to events that it was given."""

    plan: ConnectorPlan
    source: SourceNode
    sink: SinkNode
    pushes: bool = False
    health: Health = field(default_factory=Health)

    @property
    def name(self) -> str:
        return str(self.plan.id)
