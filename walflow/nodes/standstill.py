"""Finds sources that stand still: a source may not send, and no event of it was delivered during ten looks, one each
second. Looks are counted, not seconds. So a process that was stopped for a while reports no standstill.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from walflow.metrics import Metrics
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.source import SourceNode

EVERY: Final = 1.0  # seconds between looks
PATIENCE: Final = 10  # looks


class Standstill(NamedTuple):
    """`reason`: why the source may not send. `held_by`: one line for each sink or operator that holds its events;
    if none does, one for the log that has them."""

    source: str
    seconds: int
    reason: str
    held_by: Sequence[str]

    def __str__(self) -> str:
        held = "; ".join(self.held_by) or "no sink and no operator holds events of it"
        return f"{self.source} has stood still for {self.seconds} s: {self.reason}; {held}"


class _Unchanged:
    """Counts the looks since a value changed."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.looks = 0
        self._read = read
        self._value: object = None

    def look(self) -> None:
        value = self._read()
        self.looks = self.looks + 1 if value == self._value and value is not None else 0
        self._value = value


class _Source:
    """Or one of its lanes."""

    def __init__(self, nodes: ConnectorNodes, source: SourceNode) -> None:
        self.nodes = nodes
        self.source = source
        self.said = False
        self.log = structlog.get_logger(flow=nodes.plan.id.flow, component=nodes.plan.id.name)
        self._still = _Unchanged(self._delivered)
        self._holders = [(holder, _Unchanged(holder.outcomes)) for holder in source.holders]

    @property
    def seconds(self) -> int:
        """How long the source has stood still. 0: it moves, or has nothing to send."""
        return round(self._still.looks * EVERY) if self._still.looks >= PATIENCE else 0

    def look(self) -> None:
        self._still.look()
        for _, unchanged in self._holders:
            unchanged.look()

    def found(self) -> Standstill:
        node = self.source
        reasons = [f"{by}: {reason}" for by, reason in node.gate.reasons.items()] or ["its window is full"]
        held_by: list[str] = []
        for holder, unchanged in self._holders:
            held = holder.held()
            if held:
                settled = f", none settled for {unchanged.looks * EVERY:.0f} s" if unchanged.looks else ""
                held_by.append(f"{holder.name} holds {held}{settled}")
        if not held_by and (left := node.waiting()):
            held_by.append(f"{self.nodes.name} holds {left:,} event{'' if left == 1 else 's'}, sent to no sink")
        return Standstill(node.name, self.seconds, "; ".join(reasons), held_by)

    def _delivered(self) -> tuple[int, int] | None:
        outlet = self.source.outlet
        return (outlet.run, outlet.delivered) if outlet is not None and outlet.stuck else None


class Standstills:
    def __init__(self, connectors: Sequence[ConnectorNodes], metrics: Metrics) -> None:
        self._sources: list[_Source] = []
        for nodes in connectors:
            if nodes.source.linked:
                sources = [_Source(nodes, source) for source in nodes.source.lanes.values() or [nodes.source]]
                metrics.gauge("standstill_seconds", _seconds_of(sources), **nodes.plan.labels)
                self._sources += sources

    def look(self) -> None:
        """Must be called once a second. Logs one line when a source begins to stand still, and one when it moves again."""
        for source in self._sources:
            source.look()
            if source.seconds and not source.said:
                found = source.found()
                source.log.warning(
                    "standing still", seconds=found.seconds, reason=found.reason, held_by=list(found.held_by)
                )
            elif source.said and not source.seconds:
                source.log.info("moving again")
            source.said = source.seconds > 0

    def now(self) -> list[Standstill]:
        return [source.found() for source in self._sources if source.seconds]


def _seconds_of(sources: Sequence[_Source]) -> Callable[[], float]:
    return lambda: max(source.seconds for source in sources)
