"""`walflow check --running`: what a restart of the daemon with these files would change."""

import shlex
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import Final, NamedTuple

from rich.text import Text

from walflow.admin.document import Status
from walflow.admin.nodes import NodeStatus, RunningNodes, links, running
from walflow.admin.text import printable
from walflow.cli.admin_client import AdminClient, answered, understood
from walflow.cli.figures import size
from walflow.plan import Assembly

NONE: Final = "0 events"
_COLOURS: Final = {"new": "green", "changed": "yellow", "gone": "red", "log": "cyan"}


class AfterRestart(NamedTuple):
    """`what`: new, changed, gone, or log: what becomes of a log. `stays`: a log that goes on as it is. `loses`: the
    log or the sink whose events are not delivered then, as FLOW::NAME; "": none. `begins`: a sink that is new behind
    a log with lanes, likewise."""

    what: str
    subject: str
    words: str
    stays: bool = False
    loses: str = ""
    begins: str = ""


class RunningNow(NamedTuple):
    nodes: RunningNodes
    status: Status


def ask(admin: str, token_file: Path | None) -> RunningNow:
    client = AdminClient(admin, token_file)
    with answered():
        return RunningNow(understood(client.ask("/nodes"), RunningNodes), understood(client.ask("/status"), Status))


def changes(now: RunningNow, assembly: Assembly) -> list[AfterRestart]:
    before = {_name(node): node for node in now.nodes.nodes}
    after = {_name(node): node for node in running(assembly).nodes}
    return [
        *_nodes(before, after),
        *_links(now, assembly),
        *_logs(now, before, after),
        *_left_out(now, assembly, after),
        *_joined(now, assembly, after),
        *_kept(now, after),
    ]


def _name(node: NodeStatus) -> str:
    return f"{node.kind} {node.flow}::{node.name}"


def _nodes(before: Mapping[str, NodeStatus], after: Mapping[str, NodeStatus]) -> Iterator[AfterRestart]:
    for name, node in after.items():
        if name not in before:
            yield AfterRestart("new", name, f"type {node.type}")
        elif before[name].type != node.type:
            yield AfterRestart("changed", name, f"type {before[name].type} becomes {node.type}")
        elif before[name].fingerprint != node.fingerprint:
            yield AfterRestart("changed", name, "its configuration" if node.kind == "connector" else "what it does")
    for name in before:
        if name not in after:
            yield AfterRestart("gone", name, f"type {before[name].type}")


def _links(now: RunningNow, assembly: Assembly) -> Iterator[AfterRestart]:
    then = links(assembly)
    for link in then:
        if link not in now.nodes.links:
            yield AfterRestart("new", f"link {_link(link)}", "")
    for link in now.nodes.links:
        if link not in then:
            yield AfterRestart("gone", f"link {_link(link)}", "")


def _link(link: tuple[str, str, str, str]) -> str:
    source, source_port, target, target_port = link
    return f"{source}/{source_port} to {target}/{target_port}"


def _logs(
    now: RunningNow, before: Mapping[str, NodeStatus], after: Mapping[str, NodeStatus]
) -> Iterator[AfterRestart]:
    users = {node.log: name for name, node in after.items() if node.log is not None}
    for name, node in before.items():
        if node.in_memory:
            words = "is in memory: what is not drained when walflow stops is lost"
            yield AfterRestart("log", name, words, stays=name in after)
        if node.log is None:
            continue
        waiting = _backlog(now, node)
        one = waiting.startswith("1 ")
        if users.get(node.log) == name:
            words = (
                f"continues in {node.log}: {waiting} {'waits, and is' if one else 'wait, and are'} delivered "
                "after the restart"
            )
            yield AfterRestart("log", name, words, stays=True)
        elif node.log in users:
            yield AfterRestart("log", name, f"{users[node.log]} takes over {node.log}, with {waiting}")
        else:
            words = (
                f"is not opened again: {waiting} {'stays' if one else 'stay'} in {node.log}, and no sink gets "
                f"{'it' if one else 'them'}"
            )
            loses = "" if waiting == NONE else f"{node.flow}::{node.name}"
            yield AfterRestart("log", name, words, loses=loses)
    known = {node.log for node in before.values()}
    for name, node in after.items():
        if node.log is not None and node.log not in known:
            there = Path(node.log).exists()
            yield AfterRestart("log", name, f"{'opens what is in' if there else 'begins a new log in'} {node.log}")


def _left_out(now: RunningNow, assembly: Assembly, after: Mapping[str, NodeStatus]) -> Iterator[AfterRestart]:
    """Sinks that a log goes on without: what waits for them there they do not get."""
    nodes = [*now.nodes.nodes, *after.values()]
    connectors = {f"{node.flow}::{node.name}" for node in nodes if node.kind == "connector"}
    then = {node.log: f"{node.flow}::{node.name}" for node in after.values() if node.log is not None}
    for node in now.nodes.nodes:
        if node.log in then:
            had = _sinks(now.nodes.links, f"{node.flow}::{node.name}", connectors)
            have = _sinks(links(assembly), then[node.log], connectors)
            for sink in sorted(had - have):
                words = f"{sink} is not behind it any more: it does not get what waits there"
                loses = "" if _backlog(now, node) == NONE else sink
                yield AfterRestart(
                    "log", _name(node), words + _renamed(sink, sorted(have - had), node.log), loses=loses
                )


def _joined(now: RunningNow, assembly: Assembly, after: Mapping[str, NodeStatus]) -> Iterator[AfterRestart]:
    """Sinks that are new behind a log that goes on, where each sink has its own place in it."""
    nodes = [*now.nodes.nodes, *after.values()]
    connectors = {f"{node.flow}::{node.name}" for node in nodes if node.kind == "connector"}
    before = {node.log: f"{node.flow}::{node.name}" for node in now.nodes.nodes if node.log is not None}
    apart = {f"{one.id.flow}::{one.id.name}" for one in assembly.connectors if one.connector.parts()}
    for name, node in after.items():
        log = f"{node.flow}::{node.name}"
        if node.log in before and log in apart:
            had = _sinks(now.nodes.links, before[node.log], connectors)
            for sink in sorted(_sinks(links(assembly), log, connectors) - had):
                waiting = _backlog(now, node)
                gets = "the next event" if waiting == NONE else f"the oldest that is there ({waiting})"
                words = f"{sink} is new behind it, and begins with {gets}"
                yield AfterRestart("log", name, words, begins=sink)


def _kept(now: RunningNow, after: Mapping[str, NodeStatus]) -> Iterator[AfterRestart]:
    """What pipelines keep in memory, which ends with the process, also of those that stay as they are."""
    for flow in now.status.flows:
        for pipeline in flow.pipelines:
            keeps = pipeline.keeps or {}
            if not (keeps.get("state_bytes") or keeps.get("window_open")):
                continue
            name = f"pipeline {flow.name}::{pipeline.name}"
            kept = f"{size(keeps.get('state_bytes', 0))} of `state`"
            if "window_open" in keeps:
                several = "" if keeps["window_open"] == 1 else "s"
                kept = f"{size(keeps.get('state_bytes', 0))} in {keeps['window_open']:,.0f} open window{several}"
            yield AfterRestart("gone", name, f"{kept}: it begins anew", stays=name in after)


def _renamed(sink: str, new: Sequence[str], log: str) -> str:
    """What to do if the sink is there by another name. Its mark has the name without the flow."""
    if not new:
        return ""
    old, *names = (name.partition("::")[2] for name in (sink, *new))
    command = f"walflow wal rename {shlex.quote(log)} {old} {names[0] if len(names) == 1 else 'NEW'}"
    return f". If it is {' or '.join(new)} now, `{command}`, while walflow is stopped, lets it go on where it was"


def _sinks(given: Sequence[tuple[str, str, str, str]], log: str, connectors: AbstractSet[str]) -> set[str]:
    """The connectors that events of the log come to, through pipelines alone."""
    found: set[str] = set()
    waiting = [log]
    for place in waiting:
        if place in connectors and place != log:
            continue
        fresh = {target for source, port, target, _ in given if source == place and port != "err"} - found
        found |= fresh
        waiting += fresh
    return found & connectors


def _backlog(now: RunningNow, node: NodeStatus) -> str:
    for flow in now.status.flows:
        for connector in flow.connectors:
            if (flow.name, connector.name) == (node.flow, node.name) and connector.log is not None:
                events = int(connector.log.get("backlog_events", 0))
                return f"{events:,} event{'' if events == 1 else 's'}"
    return "its events"


def running_lines(found: list[AfterRestart]) -> list[Text]:
    lines = [
        Text.assemble(
            (one.what, _COLOURS[one.what]), printable(f": {one.subject}{f': {one.words}' if one.words else ''}")
        )
        for one in found
    ]
    differ = any(not one.stays for one in found)
    return [*lines, Text("a restart applies this" if differ else "the daemon runs what these files say")]


def running_document(found: list[AfterRestart]) -> list[dict[str, str]]:
    return [{"what": one.what, "subject": one.subject, "words": one.words} for one in found]
