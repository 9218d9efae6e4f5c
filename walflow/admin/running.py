"""The JSON document of /nodes: what a daemon runs, to be compared with a file by `walflow check --running`."""

from functools import cache

from msgspec import Struct

from walflow import __version__
from walflow.plan import Assembly
from walflow.plan.fingerprint import described
from walflow.plan.written import changed_files


class NodeStatus(Struct):
    """`fingerprint` differs where the configuration differs. `log`: the directory of its log."""

    flow: str
    kind: str
    name: str
    type: str
    fingerprint: str
    log: str | None
    in_memory: bool


class RunningNodes(Struct):
    """`links`: source, port, target, port. `changed`: the files that are not what they were at the start."""

    version: str
    nodes: list[NodeStatus]
    links: list[tuple[str, str, str, str]]
    changed: list[str]


def running(assembly: Assembly) -> RunningNodes:
    return RunningNodes(__version__, list(_nodes(assembly)), links(assembly), changed_files(assembly.sources))


def links(assembly: Assembly) -> list[tuple[str, str, str, str]]:
    return [(str(one.source), one.source_port, str(one.target), one.target_port) for one in assembly.links]


@cache  # an assembly never changes
def _nodes(assembly: Assembly) -> tuple[NodeStatus, ...]:
    return tuple(
        NodeStatus(*one.id, one.type, one.fingerprint, one.log, one.in_memory) for one in described(assembly)
    )
