"""The state of a running daemon for /status and `walflow status`. It only reads."""

import os
from collections import defaultdict
from math import isfinite
from typing import Final

from walflow import __version__
from walflow.admin.document import (
    Breaker,
    ConnectorStatus,
    ConsumerStatus,
    FailedStatus,
    FlowStatus,
    FrontierStatus,
    LaneStatus,
    LettersStatus,
    LinkStatus,
    Number,
    PipelineStatus,
    ReloadStatus,
    RequestStatus,
    Shut,
    StandstillStatus,
    Status,
    WaitStatus,
)
from walflow.admin.failures import failure_of
from walflow.admin.rates import Rates
from walflow.contract import FailedEvents
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import breaker
from walflow.plan import NodeId
from walflow.runtime.daemon import Daemon
from walflow.world import monotonic

Of = tuple[str, str]  # flow and component
FAILED: Final = 100  # parts of blocks of a connector that are shown


def status(daemon: Daemon, rates: Rates) -> Status:
    not_ready = daemon.readiness.lacking()
    return Status(
        version=__version__,
        pid=os.getpid(),
        uptime_seconds=round(monotonic() - daemon.started, 3),
        state="stopping" if daemon.stopping else "running",
        ready=not not_ready,
        not_ready=not_ready,
        loop_lag_seconds=round(rates.lag, 6),
        flows=_flows(daemon, rates),
        standstills=[
            StandstillStatus(found.source, found.seconds, found.reason, list(found.held_by))
            for found in daemon.standstills.now()
        ],
        waits=[WaitStatus(job.who, job.call, round(job.seconds, 3)) for job in daemon.jobs.now()],
        reload=ReloadStatus(last.by, last.asked, last.phase, last.flows) if (last := daemon.reload) else None,
    )


def _flows(daemon: Daemon, rates: Rates) -> list[FlowStatus]:
    events = _events(daemon)
    logs = _logs(daemon)
    lanes = _lanes(daemon)
    kept = _kept(daemon)
    frontiers, consumers = _frontiers(daemon), _consumers(daemon)
    flows: dict[str, FlowStatus] = {}

    def flow(node: NodeId) -> FlowStatus:
        return flows.setdefault(node.flow, FlowStatus(node.flow, [], [], []))

    for nodes in daemon.nodes.connectors:
        of = nodes.plan.id.flow, nodes.plan.id.name
        shown = _connector(nodes, rates, events[of], logs.get(of), lanes[of], restarts=_restarts(daemon, nodes))
        shown.failure = failure_of(nodes, daemon.nodes.connectors)
        shown.frontiers = frontiers[of]
        shown.consumers = consumers[of]
        shown.letters = letters_of(nodes)
        flow(nodes.plan.id).connectors.append(shown)
    for plan in daemon.assembly.pipelines:
        of = plan.id.flow, plan.id.name
        pipeline = PipelineStatus(plan.id.name, list(plan.inputs), list(plan.outputs), events[of], kept.get(of))
        flow(plan.id).pipelines.append(pipeline)
    for link in daemon.assembly.links:
        shown_link = LinkStatus(link.source.name, link.source_port, link.target.name, link.target_port)
        flow(link.source).links.append(shown_link)
    return list(flows.values())


def _connector(
    nodes: ConnectorNodes,
    rates: Rates,
    events: dict[str, int],
    log: dict[str, Number] | None,
    lanes: dict[tuple[str, str], Number],
    *,
    restarts: int,
) -> ConnectorStatus:
    outlet = nodes.source.outlet
    linked = outlet is not None and nodes.source.linked
    failed = _failed(nodes)
    asked = rates.requests(nodes.plan.id.flow, nodes.plan.id.name) if nodes.sink.linked else None
    why = breaker(nodes.sink, nodes.health) if nodes.sink.linked else None
    return ConnectorStatus(
        name=nodes.plan.id.name,
        type=nodes.plan.kind,
        state=nodes.health.state,
        reason=nodes.health.why,
        restarts=restarts,
        rates=rates.of(nodes.plan.id.flow, nodes.plan.id.name),
        events=events,
        inflight_bytes=nodes.source.inflight(),
        window_bytes=outlet.window if outlet is not None and linked else 0,
        gate=[Shut(by, reason) for by, reason in nodes.source.gate.reasons.items()],
        breaker=Breaker(why, nodes.sink.reason or nodes.health.why) if why is not None else None,
        log=log,
        inner=nodes.plan.connector.traits.forwards,
        held_by=_held_by(nodes) if log is not None else [],
        holders=_holders(nodes) if log is not None else [],
        lanes=[_lane(nodes, name, lanes) for name in nodes.source.lanes],
        failed_events=sum(found.events for _, found in failed),
        failed=[FailedStatus(lane, *part) for lane, found in failed for part in found.parts][:FAILED],
        requests=RequestStatus(*asked) if asked is not None else None,
    )


def _failed(nodes: ConnectorNodes) -> list[tuple[str, FailedEvents]]:
    """Of the sink, and of the source by lane, where there are several."""
    lanes = [(name, lane.outlet) for name, lane in nodes.source.lanes.items()] or [("", nodes.source.outlet)]
    found = [(name, outlet.failed_events(FAILED)) for name, outlet in lanes if outlet is not None]
    return [("", nodes.sink.failed_events(FAILED)), *found]


def _lane(nodes: ConnectorNodes, name: str, behind: dict[tuple[str, str], Number]) -> LaneStatus:
    gate = nodes.source.lanes[name].gate.reasons
    return LaneStatus(
        name,
        int(behind.get((name, "wal_lane_backlog_events"), 0)),
        int(behind.get((name, "wal_lane_backlog_bytes"), 0)),
        [Shut(by, reason) for by, reason in gate.items() if by not in nodes.source.gate.reasons],
        int(behind.get((name, "wal_lane_oldest_seconds"), 0)),
    )


def _holders(nodes: ConnectorNodes) -> list[str]:
    return [holder.name for holder in nodes.source.holders if holder.held()]


def _held_by(nodes: ConnectorNodes) -> list[str]:
    holders = [(holder.name, holder.held()) for holder in nodes.source.holders]
    return [f"{name} holds {held}" for name, held in holders if held]


def _events(daemon: Daemon) -> dict[Of, dict[str, int]]:
    """Totals by component and by what became of the events; where a counter has ports, over all of them."""
    events: defaultdict[Of, dict[str, int]] = defaultdict(dict)
    for name, labels, value in daemon.metrics:
        if name.endswith("_events_total"):
            of = events[labels["flow"], labels["component"]]
            what = name.removesuffix("_events_total")
            of[what] = of.get(what, 0) + value
    return events


def _logs(daemon: Daemon) -> dict[Of, dict[str, Number]]:
    logs: defaultdict[Of, dict[str, Number]] = defaultdict(dict)
    for name, labels, value in daemon.metrics.gauges(
        lambda name, labels: name.startswith("wal_") and not {"lane", "sink"} & labels.keys()
    ):
        if isfinite(value):  # JSON has no infinity
            logs[labels["flow"], labels["component"]][name.removeprefix("wal_")] = value
    return logs


def _lanes(daemon: Daemon) -> dict[Of, dict[tuple[str, str], Number]]:
    """The gauges of a log's lanes: by component, then by lane and metric."""
    lanes: defaultdict[Of, dict[tuple[str, str], Number]] = defaultdict(dict)
    for name, labels, value in daemon.metrics.gauges(lambda _, labels: "lane" in labels):
        lanes[labels["flow"], labels["component"]][labels["lane"], name] = value
    return lanes


def _frontiers(daemon: Daemon) -> dict[Of, list[FrontierStatus]]:
    """By the gauges of a table."""
    gauges: defaultdict[tuple[Of, str], dict[str, int]] = defaultdict(dict)
    for name, labels, value in daemon.metrics.gauges(
        lambda name, _: name in ("frontier_position", "frontier_lag_events")
    ):
        gauges[(labels["flow"], labels["component"]), labels["log"]][name] = int(value)
    frontiers: defaultdict[Of, list[FrontierStatus]] = defaultdict(list)
    for (of, log), values in gauges.items():
        frontiers[of].append(FrontierStatus(log, values["frontier_position"], values["frontier_lag_events"]))
    return frontiers


def letters_of(nodes: ConnectorNodes) -> list[LettersStatus]:
    states = {way.sink: way.keeper.state() for way in nodes.source.letters if way.keeper is not None}
    return [LettersStatus(sink, one.kept, one.going) for sink, one in states.items() if one.kept or one.going]


def _consumers(daemon: Daemon) -> dict[Of, list[ConsumerStatus]]:
    """By the gauges of a log that others read."""
    gauges: defaultdict[tuple[Of, str], dict[str, int]] = defaultdict(dict)
    for name, labels, value in daemon.metrics.gauges(lambda _, labels: "consumer" in labels):
        gauges[(labels["flow"], labels["component"]), labels["consumer"]][name] = int(value)
    consumers: defaultdict[Of, list[ConsumerStatus]] = defaultdict(list)
    for (of, consumer), values in gauges.items():
        lags = [value for name, value in values.items() if name.endswith("_lag_events")]
        if lags and "consumer_position" in values:  # else it was forgotten
            away = values["consumer_away_seconds"]
            consumers[of].append(ConsumerStatus(consumer, values["consumer_position"], lags[0], away))
    return consumers


def _kept(daemon: Daemon) -> dict[Of, dict[str, Number]]:
    kept: defaultdict[Of, dict[str, Number]] = defaultdict(dict)
    for name, labels, value in daemon.metrics.gauges(
        lambda name, labels: labels.get("type") == "pipeline" and name.startswith(("state_", "window_"))
    ):
        kept[labels["flow"], labels["component"]][name] = value
    return kept


def _restarts(daemon: Daemon, nodes: ConnectorNodes) -> int:
    return daemon.metrics.counter("restarts_total", **nodes.plan.labels).value
