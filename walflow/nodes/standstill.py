"""Finds sources that stand still: a source has events that are not settled, or may not read any, and none was
delivered during ten looks, one each second, whatever the reason. Looks are counted, not seconds. So a process that
was stopped for a while reports no standstill.

Events that operators alone hold are no standstill: a batch waits for more of them as long as its `timeout` says.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from walflow.metrics import Metrics
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.source import Holder, SourceNode

EVERY: Final = 1.0  # seconds between looks
PATIENCE: Final = 10  # looks


class Waiting(Protocol):
    """A job on a thread that does not end. `who`: a connector, or a lane of one."""

    @property
    def who(self) -> str: ...


class Standstill(NamedTuple):
    """`reason`: why the source sends nothing, or what it waits for. `held_by`: one line for each sink or operator
    that holds its events; if none does, one for the log that has them."""

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


class _HolderLooks:
    """For how many looks one has held events and settled none."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.held = ""
        self._unchanged = _Unchanged(lambda: holder.outcomes() if self.held else None)

    @property
    def looks(self) -> int:
        return self._unchanged.looks

    def look(self) -> None:
        self.held = self.holder.held()
        self._unchanged.look()

    def __str__(self) -> str:
        settled = f", none settled for {self.looks * EVERY:.0f} s" if self.looks else ""
        return f"{self.holder.name} holds {self.held}{settled}"


class _Source:
    """Or one of its lanes. `jobs`: those that do not end, of all connectors."""

    def __init__(self, nodes: ConnectorNodes, source: SourceNode, jobs: Callable[[], Sequence[Waiting]]) -> None:
        self.nodes = nodes
        self.source = source
        self.said = False
        self.log = structlog.get_logger(flow=nodes.plan.id.flow, component=nodes.plan.id.name)
        self._jobs = jobs
        self._still = _Unchanged(self._delivered)
        self._holders = [_HolderLooks(holder) for holder in source.holders]

    @property
    def seconds(self) -> int:
        """How long the source has stood still. 0: it moves, or has nothing to send."""
        return round(self._still.looks * EVERY) if self._still.looks >= PATIENCE else 0

    def look(self) -> None:
        for one in self._holders:
            one.look()
        self._still.look()

    def found(self) -> Standstill:
        node = self.source
        holding = [one for one in self._holders if one.holder.held()]
        held_by = [str(one) for one in holding]
        if not held_by and (left := node.waiting()):
            held_by.append(f"{self.nodes.name} holds {left:,} event{'' if left == 1 else 's'}, sent to no sink")
        whose = {node.name, self.nodes.name, *(one.holder.name for one in holding)}
        jobs = [str(job) for job in self._jobs() if job.who in whose]
        return Standstill(node.name, self.seconds, "; ".join([*self._reasons(), *jobs]), held_by)

    def _delivered(self) -> tuple[int, int] | None:
        outlet = self.source.outlet
        return (outlet.run, outlet.delivered) if outlet is not None and self._reasons() else None

    def _reasons(self) -> Sequence[str]:
        """Why nothing of it is delivered, if that lasts.
        Empty: it has nothing to deliver, or operators hold all of it."""
        outlet = self.source.outlet
        if outlet is None:
            return ()
        if stopped := outlet.stopped():
            return stopped
        if not outlet.unsettled:
            return ()
        if waits := outlet.waits_for():
            return [f"it waits for {waits}"]
        holding = [one for one in self._holders if one.held]
        if not holding:
            unsent = outlet.unsent()
            return [unsent] if unsent else ()
        return [
            f"no outcome from {one.holder.name} for {one.looks * EVERY:.0f} s"
            for one in holding
            if one.holder.is_sink
        ]


class Standstills:
    def __init__(
        self,
        connectors: Sequence[ConnectorNodes],
        metrics: Metrics,
        jobs: Callable[[], Sequence[Waiting]] = lambda: (),
    ) -> None:
        self._sources: list[_Source] = []
        for nodes in connectors:
            if nodes.source.linked:
                sources = [_Source(nodes, source, jobs) for source in nodes.source.lanes.values() or [nodes.source]]
                metrics.gauge("standstill_seconds", _seconds_of(sources), **nodes.plan.labels)
                self._sources += sources

    def look(self) -> None:
        """Must be called once a second. Logs one line when a source begins to stand still,
        and one when it moves again."""
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
