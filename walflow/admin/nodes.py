"""The JSON document of /nodes: what a daemon runs, to be compared with a file by `walflow check --running`."""

import os
from collections.abc import Sequence

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
    """`links`: source, port, target, port. `changed`: the files that are not what they were at the start. `workdir`:
    the directory for relative paths."""

    version: str
    nodes: list[NodeStatus]
    links: list[tuple[str, str, str, str]]
    changed: list[str]
    workdir: str = ""


def running(assembly: Assembly, nodes: Sequence[NodeStatus] | None = None) -> RunningNodes:
    """`nodes`: its own, if they are known; they never change."""
    known = nodes_of(assembly) if nodes is None else nodes
    return RunningNodes(__version__, [*known], links(assembly), changed_files(assembly.sources), os.getcwd())


def links(assembly: Assembly) -> list[tuple[str, str, str, str]]:
    return [(str(one.source), one.source_port, str(one.target), one.target_port) for one in assembly.links]


def nodes_of(assembly: Assembly) -> Sequence[NodeStatus]:
    return [NodeStatus(*one.id, one.type, one.fingerprint, one.log, one.in_memory) for one in described(assembly)]
