"""Checks the links of a flow."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from typing import Literal, NamedTuple

from walflow.contract import Ports
from walflow.diagnostics import Report, Span, did_you_mean, error, one_of
from walflow.lang.config import Flow, LinkConfig, LinkEnd, NodeId
from walflow.plan.assembly import ERR, Link, PipelinePlan
from walflow.warnings import warning
from walflow.warnings.unlinked import UNLINKED
from walflow.warnings.unused import UNUSED


class GraphNode(NamedTuple):
    """`ports` is None if the node has an error, which was reported already. `gives_up`: where it says after how many
    failures an event leaves by `err`. `how_to_use`: see
    `walflow.contract.Connector`."""

    ports: Ports | None
    forwards: bool
    created: Span
    output_optional: bool = False
    gives_up: Span | None = None
    how_to_use: Callable[[str], str] = lambda port: ""


Nodes = Mapping[NodeId, GraphNode]


def check_links(flow: Flow, nodes: Nodes, report: Report) -> dict[Link, Span]:
    """The correct links, each with its place in the file."""
    links: dict[Link, Span] = {}
    for config in flow.links:
        link = _link(config, flow, nodes, report)
        if link in links:
            report(error("this link stands twice: every event would come twice", config.span))
        elif link:
            links[link] = config.span
    return links


def _link(config: LinkConfig, flow: Flow, nodes: Nodes, report: Report) -> Link | None:
    source, target = config.source, config.target
    known = [_is_known(end, flow, nodes, report) for end in (source, target)]
    if source.node.kind == target.node.kind == "connector":
        hint = (
            "put a pipeline between them: `create pipeline passthrough from pipelines::passthrough;`, "
            "with `use tremor::pipelines;`"
        )
        report(error("a connector cannot be linked to a connector directly", config.span, hint))
        return None
    if source.node == target.node:
        report(error(f"pipeline `{source.node.name}` is linked to itself", config.span))
        return None
    if not all(known):
        return None
    source_port = _port(source, nodes, "output", report)
    target_port = _port(target, nodes, "input", report)
    return Link(source.node, source_port, target.node, target_port) if source_port and target_port else None


def _is_known(end: LinkEnd, flow: Flow, nodes: Nodes, report: Report) -> bool:
    if end.node in nodes:
        return True
    if flow.whole:
        kind, name = end.node.kind, end.node.name
        others = [node.name for node in nodes if node.kind == kind and node.flow == flow.alias]
        other_kind: Literal["connector", "pipeline"] = "pipeline" if kind == "connector" else "connector"
        if NodeId(flow.alias, other_kind, name) in nodes:
            hint = f"there is a {other_kind} of that name: `/{other_kind}/{name}`"
        else:
            of = f"`create {kind} {name};` if it is defined here, else `create {kind} {name} from …;`"
            hint = did_you_mean(name, others) or f"create it: {of}"
        report(error(f"unknown {kind} `{name}`", end.span, hint))
    return False


def _port(end: LinkEnd, nodes: Nodes, direction: str, report: Report) -> str | None:
    ports = nodes[end.node].ports
    default = "in" if direction == "input" else "out"
    name = end.port.text if end.port else default
    if ports is None:
        return None
    these, others = (ports.inputs, ports.outputs) if direction == "input" else (ports.outputs, ports.inputs)
    if name in these:
        return name
    span = end.port.span if end.port else end.span
    what = f"{end.node.kind} `{end.node.name}`"
    use = nodes[end.node].how_to_use(name)
    if use and name not in others:
        report(error(f"{what} has no {direction} `{name}` as it is configured", span, use))
    elif not these:
        verb = "to it" if direction == "input" else "from it"
        report(error(f"{what} has no {direction}s: nothing can be linked {verb}", span))
    elif name in others:
        wrong = "output" if direction == "input" else "input"
        report(error(f"`{name}` is an {wrong} of {what}, not an {direction}", span, _list(direction, these)))
    else:
        hint = did_you_mean(name, these) or _list(direction, these)
        report(error(f"{what} has no {direction} `{name}`", span, hint))
    return None


def _list(direction: str, ports: Sequence[str]) -> str:
    many = len(ports) > 1
    return f"its {direction}{'s are' if many else ' is'} {one_of(ports).replace(' or ', ' and ')}"


def check_unlinked(
    nodes: Nodes, links: Collection[Link], pipelines: Mapping[NodeId, PipelinePlan], report: Report
) -> None:
    outgoing = Counter((link.source, link.source_port) for link in links)
    incoming = Counter(link.target for link in links)
    linked = {node for node, _ in outgoing} | set(incoming)
    turned = _turned(nodes, links, outgoing, incoming)
    for node, at in nodes.items():
        if at.ports is None:
            continue
        if node not in linked:
            report(
                warning(
                    UNUSED,
                    f"{node.kind} `{node.name}` is created, never linked",
                    at.created,
                    "it does nothing",
                )
            )
        elif node.kind == "connector":
            _check_connector(node, at, outgoing, report)
        else:
            entered = {link.target_port for link in links if link.target == node}
            left = {port for of, port in outgoing if of == node}
            _check_pipeline(node, at, entered, left, pipelines[node], turned.get(node), report)


def _turned(
    nodes: Nodes, links: Collection[Link], outgoing: Counter[tuple[NodeId, str]], incoming: Counter[NodeId]
) -> dict[NodeId, str]:
    """Pipelines that have links in one direction only, each with the link to a connector that may be meant the other
    way: nothing reads that connector, or it is a log that nothing is linked to."""
    leads_on = {node for node, port in outgoing if port != ERR}
    hints: dict[NodeId, str] = {}
    for link in links:
        source, target = nodes[link.source], nodes[link.target]
        unread = target.ports is not None and bool({*target.ports.outputs} - {ERR}) and link.target not in leads_on
        if link.target.kind == "connector" and unread and not incoming[link.source]:
            hints[link.source] = _other_way(link)
        elif source.forwards and not incoming[link.source] and link.target not in leads_on:
            hints[link.target] = _other_way(link)
    return hints


def _other_way(link: Link) -> str:
    ends = [f"/{node.kind}/{node.name}" for node in (link.target, link.source)]
    return f"is the link the wrong way round? `connect {ends[0]} to {ends[1]};`"


def _check_connector(node: NodeId, at: GraphNode, outgoing: Counter[tuple[NodeId, str]], report: Report) -> None:
    assert at.ports is not None
    if at.gives_up is not None and ERR in at.ports.outputs and not outgoing[node, ERR]:
        hint = f"link `/connector/{node.name}/err` to what keeps them"
        message = f"events that fail so often are dropped: `err` of connector `{node.name}` is not linked"
        report(warning(UNLINKED, message, at.gives_up, hint))
    reads = any(outgoing[node, port] for port in at.ports.outputs)
    unread = [port for port in at.ports.outputs if port != ERR and not outgoing[node, port]]
    for port in () if at.output_optional else unread:
        # a server or a console may be used only for output; of a log without a reader each event is acked, and gone
        if at.forwards:
            message = (
                f"connector `{node.name}` acks every event that comes to it, and drops it: `{port}` is not linked"
            )
            report(
                error(
                    message,
                    at.created,
                    f"link it: `connect /connector/{node.name} to …;`, to a `null` if it is meant so",
                )
            )
        elif reads:
            hint = "what it reads is dropped"
            report(warning(UNLINKED, f"`{port}` of connector `{node.name}` is not linked", at.created, hint))


def _check_pipeline(
    node: NodeId,
    at: GraphNode,
    entered: AbstractSet[str],
    left: AbstractSet[str],
    plan: PipelinePlan,
    turned: str | None,
    report: Report,
) -> None:
    """`entered`, `left`: its ports that links lead to, and those that they come from."""
    if not entered:
        message = f"nothing is linked to pipeline `{node.name}`"
        report(warning(UNLINKED, message, at.created, turned or "no event comes to it"))
    reached = _reached(plan, entered)
    outputs = sorted(reached & set(plan.outputs) - {ERR})
    if outputs and not reached & left and not reached & {one.name for one in plan.operators if one.run_as}:
        hint = f"link it: `connect /pipeline/{node.name} to /connector/…;`, to a `null` if it is meant so"
        message = f"pipeline `{node.name}` drops every event that comes to it: {one_of(outputs)} of it is not linked"
        report(error(message, at.created, turned or hint))
        return
    selected = {select.target for select in plan.selects}
    for port in plan.outputs:
        if port in selected and port not in left:
            hint = "events that come to it end there, and count as delivered"
            report(warning(UNLINKED, f"`{port}` of pipeline `{node.name}` is not linked", at.created, hint))


def _reached(plan: PipelinePlan, begin: AbstractSet[str]) -> set[str]:
    """The places and outputs that events come to by selects, scripts and operators.
    What is rejected does not count."""
    through = plan.through
    reached = set(begin)
    waiting = list(begin)
    while waiting:
        place = waiting.pop()
        onward = {select.target for select in plan.selects_from(place)} | set(through.get(place, ()))
        waiting += onward - reached
        reached |= onward
    return reached
