"""How many nodes a block passes within one call. Pipelines and operators call each other, and the interpreter limits
the depth of calls. A log on disk ends such a call: the next one begins after the log. A buffer in memory does not end
it.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import Final

from walflow.diagnostics import Report, Span, error
from walflow.plan.assembly import ERR, Assembly, Link
from walflow.plan.graph import Port

DEEPEST: Final = (
    64  # pipelines and operators in a row; the interpreter allows 1,000 calls, and each node makes up to ten
)
BUFFER: Final = 4  # depth of a buffer: it stores, acks and sends within the call


def check_depth(assembly: Assembly, written: Mapping[Link, Span], report: Report) -> None:
    """Reports the first link that is too deep."""
    after: dict[Port, dict[Port, int]] = defaultdict(dict)  # each step with its depth
    for link in assembly.links:
        after[Port(link.source, link.source_port)][Port(link.target, link.target_port)] = 0
    for pipeline in assembly.pipelines:
        for select in pipeline.selects:
            after[Port(pipeline.id, select.source)][Port(pipeline.id, select.target)] = 1
        for name, exits in pipeline.through.items():
            after[Port(pipeline.id, name)].update({Port(pipeline.id, exit): 1 for exit in exits})
        for name in pipeline.places:
            if err := pipeline.err_from(name):
                after[Port(pipeline.id, name)].setdefault(Port(pipeline.id, err), 1)
    for plan in assembly.connectors:
        if plan.connector.traits.forwards and not plan.connector.traits.positions:
            ports = plan.connector.ports_used()
            for name in ports.inputs:
                after[Port(plan.id, name)].update({Port(plan.id, to): BUFFER for to in ports.outputs if to != ERR})
    depths = _depths(after)
    links = [link for link in written if depths[Port(link.source, link.source_port)] > DEEPEST]
    if links:
        first = min(links, key=lambda link: (depths[Port(link.source, link.source_port)], written[link].start))
        depth = depths[Port(first.source, first.source_port)]
        message = f"more than {DEEPEST} pipelines and operators in a row: here it is {depth}"
        hint = f"a log on disk between them begins a new row; a buffer in memory counts for {BUFFER}"
        report(error(message, written[first], hint))


def _depths(after: Mapping[Port, Mapping[Port, int]]) -> Counter[Port]:
    """The longest way to each port. Ports in an allowed cycle (through a buffer) have none."""
    before = Counter(port for steps in after.values() for port in steps)
    depths: Counter[Port] = Counter()
    waiting = deque(port for port in after if not before[port])
    while waiting:
        here = waiting.popleft()
        for port, cost in after.get(here, {}).items():
            depths[port] = max(depths[port], depths[here] + cost)
            before[port] -= 1
            if not before[port]:
                waiting.append(port)
    return depths
