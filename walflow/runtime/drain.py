"""The orderly end of the daemon: it stops reading, and waits until the events that were read are delivered. Events
that a log could not deliver in time stay in the log."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from walflow.nodes.build import Nodes
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import DRAIN, PAUSED
from walflow.nodes.source import SourceNode
from walflow.world import handover

LEAVING: Final = 0.1  # seconds
MOST: Final = 1000  # events that may be looked at one by one

log = structlog.get_logger()


async def drain(nodes: Nodes, seconds: float, at_once: asyncio.Event, *, leaving: bool = False) -> int:
    """Returns the number of events that are left. `at_once` is set when the operator asks not to wait any longer.
    `leaving`: the next process goes on with the logs at once, so they get 0.1 s for what they could deliver, and as
    much for what is in flight then."""
    log.info("draining", seconds=seconds)
    begun = asyncio.get_running_loop().time()

    async def until(done: Callable[[], bool], deadline: float) -> None:
        await _until(done, deadline, at_once)

    # what answers reads nothing of its own: its answers belong to events that were read, and are waited for with them
    _stop_reading(
        [each for each in nodes.connectors if not (each.source.transactional or each.plan.connector.traits.answers)]
    )
    for operator in nodes.operators:
        operator.node.drain()
    kept = _Kept(nodes.connectors)
    if leaving:
        await until(lambda: kept.moves_nothing(), begun + LEAVING)
        kept.logs_wait = True
    await until(lambda: kept.moves_nothing(), begun + seconds / 2)
    _stop_reading([each for each in nodes.connectors if each.source.transactional])
    if leaving:
        kept.logs_wait = False
        await until(lambda: kept.settles_nothing(), asyncio.get_running_loop().time() + LEAVING)
        kept.logs_wait = True
    await until(lambda: kept.settles_nothing(), begun + seconds)
    if at_once.is_set() or not kept.settles_nothing():
        _tell_early(nodes, at_once)
    elif why := kept.why():
        log.info("drain is over", reason=why)
    handover().owing = kept.owed()
    return _left(nodes.connectors)


async def settle(nodes: Nodes, seconds: float, at_once: asyncio.Event, *, leaving: bool) -> None:
    """Waits once more after a drain, for what sources sent as they ended."""
    kept = _Kept(nodes.connectors)
    if kept.settles_nothing():
        return
    begun = asyncio.get_running_loop().time()
    if leaving:
        await _until(lambda: kept.settles_nothing(), begun + LEAVING, at_once)
        kept.logs_wait = True
    if seconds > 0:  # else all of it was said
        await _until(lambda: kept.settles_nothing(), begun + seconds, at_once)
        if not kept.settles_nothing():
            _tell_early(nodes, at_once)


def _tell_early(nodes: Nodes, at_once: asyncio.Event) -> None:
    if not _quiet(nodes.connectors):
        log.warning("drain ended early", reason="asked to end at once" if at_once.is_set() else "time is up")


async def _until(done: Callable[[], bool], deadline: float, at_once: asyncio.Event) -> None:
    """Polls every 5 ms. A drain happens once, and the events that it waits for have many causes."""
    clock = asyncio.get_running_loop().time
    while not done() and clock() < deadline and not at_once.is_set():  # noqa: ASYNC110  # see above
        await asyncio.sleep(0.005)


class _Kept:
    """What need not be waited for: events that a log or a broker has, and that a sink cannot take now,
    or has failed. `logs_wait`: what a log has need not be waited for in any case."""

    def __init__(self, connectors: Sequence[ConnectorNodes]) -> None:
        self.logs_wait = False
        self._connectors = connectors
        self._by_name = {nodes.sink.name: nodes for nodes in connectors if nodes.sink.linked}

    def moves_nothing(self) -> bool:
        """All that is left of what was read, or is in a log, cannot be delivered now."""
        return all(
            not _unsettled(source) or self._may_stay(nodes, source) or self._is_paused(nodes, source)
            for nodes, source in self._sources()
        )

    def settles_nothing(self) -> bool:
        """The same of what is in flight."""
        return all(
            source.outlet is None or source.outlet.quiet or self._may_stay(nodes, source)
            for nodes, source in self._sources()
        )

    def why(self) -> str:
        """Says in words why events stay undelivered."""
        unsettled = [(nodes, source) for nodes, source in self._sources() if _unsettled(source)]
        left = [source for nodes, source in unsettled if self._may_stay(nodes, source)]
        away = {name for source in left for name in self._away(source)}
        paused = {name for nodes, source in unsettled if self._is_paused(nodes, source) for name in _paused(source)}
        told = [f"{name} takes no events" for name in sorted(away)]
        told += [f"{name} is paused" for name in sorted(paused)]
        told += [f"what {source.name} has left has failed" for source in left if not self._away(source)]
        return "; ".join(told)

    def owed(self) -> frozenset[str]:
        """The sinks for which events wait, also in a log before the last one."""
        left = [source for _, source in self._sources() if _unsettled(source)]
        found = [nodes for source in left for nodes in self._sinks(source)]
        for nodes in found:  # it grows meanwhile
            for source in nodes.source.lanes.values() or [nodes.source]:
                found += [each for each in self._sinks(source) if each not in found]
        return frozenset(nodes.sink.name for nodes in found)

    def _sources(self) -> list[tuple[ConnectorNodes, SourceNode]]:
        """The sources of the connectors, or their lanes. Not those of answers: an event is unsettled until its answer
        is settled, so whoever has the event counts for both."""
        return [
            (nodes, source)
            for nodes in self._connectors
            if not nodes.plan.connector.traits.answers
            for source in nodes.source.lanes.values() or [nodes.source]
        ]

    def _may_stay(self, nodes: ConnectorNodes, source: SourceNode) -> bool:
        if self.logs_wait and nodes.plan.connector.traits.positions:
            return True
        return _is_kept(nodes) and (bool(self._away(source)) or self._only_failed(source))

    def _is_paused(self, nodes: ConnectorNodes, source: SourceNode) -> bool:
        """It sends nothing, and all that it has sent is settled."""
        return _is_kept(nodes) and bool(_paused(source)) and source.outlet is not None and source.outlet.quiet

    def _away(self, source: SourceNode) -> list[str]:
        """The sinks of it that take nothing now, and those of the answers to its events."""
        return [
            nodes.sink.name
            for nodes in self._reached(source)
            if nodes.sink.triggered() or nodes.health.state == "restarting"
        ]

    def _sinks(self, source: SourceNode) -> list[ConnectorNodes]:
        return [nodes for holder in source.holders if (nodes := self._by_name.get(holder.name)) is not None]

    def _reached(self, source: SourceNode) -> list[ConnectorNodes]:
        """The sinks of its events, and those of the answers to its events."""
        found = self._sinks(source)
        for nodes in found:  # it grows meanwhile
            if nodes.plan.connector.traits.answers:
                found += [each for each in self._sinks(nodes.source) if each not in found]
        return found

    def _only_failed(self, source: SourceNode) -> bool:
        """Each event that is not settled has failed: once or more so that it counts against it, or twice, and it
        waits for its next try. It is sent again after the next start. After one failure it may be well: its peer
        was restarted, or a neighbour was to blame."""
        outlet = source.outlet
        if outlet is None or not 0 < outlet.waiting() <= MOST:
            return False
        failed = [outlet.failed_events(MOST), *(nodes.sink.failed_events(MOST) for nodes in self._sinks(source))]
        positions = {
            at
            for found in failed
            for part in found.parts
            if part.attempts or (part.tries > 1 and part.seconds > 0)
            for at in range(part.position, part.position + part.events)
        }
        return len(positions) >= outlet.waiting()


def _is_kept(nodes: ConnectorNodes) -> bool:
    """What is not delivered is there at the next start: a log or a broker has it."""
    connector = nodes.plan.connector
    return connector.traits.positions or (connector.resends() and not connector.traits.forwards)


def _paused(source: SourceNode) -> list[str]:
    """The connectors that an operator has paused and that keep this source from sending."""
    return [key.removeprefix(PAUSED) for key in source.gate.reasons if key.startswith(PAUSED)]


def _unsettled(source: SourceNode) -> bool:
    outlet = source.outlet
    return outlet is not None and (not outlet.quiet or outlet.waiting() > 0)


def _stop_reading(connectors: Sequence[ConnectorNodes]) -> None:
    for nodes in connectors:
        nodes.source.gate.trigger(DRAIN, "stopping")


def _quiet(connectors: Sequence[ConnectorNodes]) -> bool:
    return all(nodes.source.outlet is None or nodes.source.outlet.quiet for nodes in connectors)


def _left(connectors: Sequence[ConnectorNodes]) -> int:
    return sum(nodes.source.outlet.waiting() for nodes in connectors if nodes.source.outlet is not None)
