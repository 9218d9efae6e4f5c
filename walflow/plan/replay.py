"""A flow in which a log is replayed into one of its sinks, and into no other."""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

from walflow.contract import LogReplayer
from walflow.errors import Misconfigured
from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link
from walflow.plan.graph import Graph, Path
from walflow.plugins import NotLoadable
from walflow.registry import Registry, find
from walflow.roles import type_of


def replayer(registry: Registry) -> type[LogReplayer]:
    """Raises NotLoadable."""
    found = find(type_of("replayer"), registry)
    if found is None or not issubclass(found, LogReplayer):
        raise NotLoadable("the connector with the role replayer is no subclass of walflow.LogReplayer")
    return found


def replay_into(assembly: Assembly, path: str, sink: str, replay: LogReplayer) -> Assembly:
    """The ways from the log in `path` to that sink, with `replay` in the place of the log. `sink`: `FLOW::NAME`, or
    the name alone if there is one of it. Raises Misconfigured where it cannot be done."""
    log = _log_in(assembly, path)
    target = _named(assembly, sink, log.id)
    links = _ways(assembly, log.id, target.id)
    if not links:
        raise Misconfigured(_no_way(assembly, log.id, target.id))
    nodes = {link.source for link in links} | {link.target for link in links}
    pipelines = tuple(plan for plan in assembly.pipelines if plan.id in nodes)
    stand_in = replace(log, kind=type_of("replayer"), connector=replay, codec=None, preframing=None, postframing=None)
    connectors = tuple(stand_in if plan.id == log.id else plan for plan in assembly.connectors if plan.id in nodes)
    return replace(assembly, connectors=connectors, pipelines=pipelines, links=tuple(links))


def _log_in(assembly: Assembly, path: str) -> ConnectorPlan:
    wanted = os.path.realpath(path)
    logs = {
        os.path.realpath(claim.path): plan
        for plan in assembly.connectors
        for claim in plan.connector.claims()
        if plan.connector.traits.positions and plan.connector.traits.passes  # Spark sends results
    }
    if wanted not in logs:
        known = ", ".join(f"{plan.id} in {where}" for where, plan in logs.items()) or "none"
        raise Misconfigured(f"no log of the flows is in {path}: there is {known}")
    return logs[wanted]


def _named(assembly: Assembly, sink: str, log: NodeId) -> ConnectorPlan:
    sinks = [plan for plan in assembly.connectors if plan.connector.ports_used().inputs and plan.id != log]
    found = [plan for plan in sinks if sink in (str(plan.id), plan.id.name)]
    if len(found) != 1:
        known = ", ".join(str(plan.id) for plan in found or sinks)
        raise Misconfigured(f"{'several sinks are' if found else 'no sink is'} named {sink}: there is {known}")
    return found[0]


def _ways(assembly: Assembly, log: NodeId, sink: NodeId) -> Sequence[Link]:
    """The links of all ways, through pipelines, and through what holds events in memory alone."""
    holds = {plan.id for plan in assembly.connectors if plan.connector.traits.passes and not plan.connector.claims()}
    paths = [path for path in Graph(assembly).paths() if path.links[0].source_port != ERR]
    ahead = _reached({log}, holds, [(path.source, path.sink) for path in paths])
    behind = _reached({sink}, holds, [(path.sink, path.source) for path in paths])
    return list(dict.fromkeys(link for path in paths if _leads(path, ahead, behind) for link in path.links))


def _leads(path: Path, ahead: Collection[NodeId], behind: Collection[NodeId]) -> bool:
    return path.source in ahead and path.sink in behind


def _reached(begin: set[NodeId], through: Collection[NodeId], steps: Sequence[tuple[NodeId, NodeId]]) -> set[NodeId]:
    """What leads on from `begin`: these, and what is reached by steps from one of them to one of `through`."""
    found, size = set(begin), 0
    while size < len(found):
        size = len(found)
        found |= {to for source, to in steps if source in found and to in through}
    return found


def _no_way(assembly: Assembly, log: NodeId, sink: NodeId) -> str:
    graph = Graph(assembly)
    logs = ", ".join(str(one) for one in graph.logs_of(sink))
    from_there = f"; it gets events of {logs}" if logs else ""
    return f"no way leads from {log} to {sink}{from_there}"
