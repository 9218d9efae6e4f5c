"""The nodes of one connector."""

from dataclasses import dataclass, field

from walflow.nodes.health import Health
from walflow.nodes.sink import SinkNode
from walflow.nodes.source import SourceNode
from walflow.plan import ConnectorPlan


@dataclass(frozen=True)
class ConnectorNodes:
    """The two halves of a connector, `source` and `sink`. A half may have no links. `pushes`: it is a source of
    streams, as opposed to a log, a broker's consumer, and what sends the answers to its events."""

    plan: ConnectorPlan
    source: SourceNode
    sink: SinkNode
    pushes: bool = False
    health: Health = field(default_factory=Health)

    @property
    def name(self) -> str:
        return str(self.plan.id)
