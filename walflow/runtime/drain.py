"""The orderly end of the daemon: it stops reading, and waits until the events that were read are delivered. Events that
a log could not deliver in time stay in the log."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from walflow.nodes.build import Nodes
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import DRAIN

log = structlog.get_logger()


async def drain(nodes: Nodes, seconds: float, at_once: asyncio.Event) -> int:
    """Returns the number of events that are left. `at_once` is set when the operator asks not to wait any longer."""
    log.info("draining", seconds=seconds)
    begun = asyncio.get_running_loop().time()

    async def until(done: Callable[[], bool], deadline: float) -> None:
        """Polls every 5 ms. A drain happens once, and the events that it waits for have many causes."""
        clock = asyncio.get_running_loop().time
        while not done() and clock() < deadline and not at_once.is_set():  # noqa: ASYNC110  # see above
            await asyncio.sleep(0.005)

    _stop_reading([each for each in nodes.connectors if not each.source.transactional])
    for operator in nodes.operators:
        operator.node.drain()
    await until(lambda: _quiet(nodes.connectors) and not _left(nodes.connectors), begun + seconds / 2)
    _stop_reading([each for each in nodes.connectors if each.source.transactional])
    await until(lambda: _quiet(nodes.connectors), begun + seconds)
    if not _quiet(nodes.connectors):
        log.warning("drain ended early", reason="asked to end at once" if at_once.is_set() else "time is up")
    return _left(nodes.connectors)


def _stop_reading(connectors: Sequence[ConnectorNodes]) -> None:
    for nodes in connectors:
        nodes.source.gate.trigger(DRAIN, "stopping")


def _quiet(connectors: Sequence[ConnectorNodes]) -> bool:
    return all(nodes.source.outlet is None or nodes.source.outlet.quiet for nodes in connectors)


def _left(connectors: Sequence[ConnectorNodes]) -> int:
    return sum(nodes.source.outlet.waiting() for nodes in connectors if nodes.source.outlet is not None)
