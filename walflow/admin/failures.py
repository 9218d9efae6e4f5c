"""Of each sink, its last failure, and what to do about it."""

from collections.abc import Sequence

from walflow.admin.document import FailureStatus
from walflow.contract import FailedPart
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.failures import advice_on

PARTS = 100  # of each lane that are looked at


def failure_of(nodes: ConnectorNodes, connectors: Sequence[ConnectorNodes]) -> FailureStatus | None:
    """`connectors`: all of the daemon. None: it has not failed since the start."""
    found = nodes.sink.failures
    if not nodes.sink.linked or not found.total:
        return None
    now = nodes.sink.now()
    sources = [one for one in connectors if any(holder.name == nodes.name for holder in one.source.holders)]
    waiting, parts = _waiting(nodes, sources)
    oldest = min(parts, key=lambda part: part.position, default=None)
    return FailureStatus(
        found.cause,
        found.position,
        found.row,
        round(found.seconds(now), 1),
        round(now - found.last, 1),
        waiting,
        oldest.position if oldest is not None else 0,
        oldest.tries if oldest is not None else 0,
        _advice(nodes, sources, oldest),
    )


def _waiting(nodes: ConnectorNodes, sources: Sequence[ConnectorNodes]) -> tuple[int, list[FailedPart]]:
    """Events that it has failed and that wait, in its own hands or in a source's; and the oldest parts of them."""
    outlets = [lane.outlet for one in sources for lane in one.source.lanes.values() or [one.source]]
    known = [nodes.sink.failed_events(PARTS), *(one.failed_events(PARTS) for one in outlets if one is not None)]
    by: dict[
        int, FailedPart
    ] = {}  # what a source has sent again may be in the sink's hands, and has failed there too
    more = 0
    for found in known:
        own = [part for part in found.parts if nodes.name in part.sink.split(" and ")]
        if own and len(own) == len(found.parts):
            more += found.events - sum(part.events for part in own)
        for part in own:
            before = by.get(part.position)
            by[part.position] = part if before is None else _both(part, before)
    return more + sum(part.events for part in by.values()), [*by.values()]


def _both(part: FailedPart, other: FailedPart) -> FailedPart:
    return part._replace(tries=part.tries + other.tries, attempts=part.attempts + other.attempts)


def _advice(nodes: ConnectorNodes, sources: Sequence[ConnectorNodes], oldest: FailedPart | None) -> str:
    found = nodes.sink.failures
    if found.row and (advice := advice_on(found.cause)):
        return advice
    resending = [one for one in sources if one.plan.connector.resends()]
    told: list[str] = []
    if found.row and resending:
        names = " and ".join(one.plan.id.name for one in resending)
        told.append(f"nothing is lost: its events wait in {names}, and it is tried again")
    if oldest is not None and (not found.row or oldest.attempts):  # it failed while others were taken
        told += [_way_out(one, oldest) for one in resending]
    return "; ".join(told)


def _way_out(source: ConnectorNodes, oldest: FailedPart) -> str:
    """Of an event that its sink fails while it takes others."""
    name, connector = source.plan.id.name, source.plan.connector
    attempts = getattr(connector, "max_attempts", None)
    which = f"the event at position {oldest.position}" if oldest.position else "the event"
    if attempts is not None:
        return f"{which} leaves by err after max_attempts of {name}, {attempts}"
    if "max_attempts" not in type(connector).model_fields:
        return f"{name} sends {which} again until it is taken"
    path = next((claim.path for claim in connector.claims() if claim.what == "log directory"), "")
    skip = f"; or stop walflow and take it out: walflow wal skip {path} {oldest.position}" if path else ""
    return f"max_attempts of {name} lets {which} leave by err{skip}"
