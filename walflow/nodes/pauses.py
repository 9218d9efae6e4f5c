"""Connectors that an operator has paused. A paused connector reads nothing, and no source upstream sends it anything.

What it holds already goes on. A pause ends with the process.
"""

from collections.abc import Sequence
from typing import Final

from walflow.contract import Gate
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import PAUSED

REASON: Final = "by the admin interface"


def is_paused(nodes: ConnectorNodes) -> bool:
    return _key(nodes) in nodes.source.gate.reasons


def pause(nodes: ConnectorNodes) -> None:
    for gate in _gates(nodes):
        gate.trigger(_key(nodes), REASON)


def resume(nodes: ConnectorNodes) -> None:
    for gate in _gates(nodes):
        gate.restore(_key(nodes))


def _gates(nodes: ConnectorNodes) -> Sequence[Gate]:
    """Its own first, so that a log sends nothing while the others shut."""
    return [nodes.source.gate, *nodes.sink.gates]


def _key(nodes: ConnectorNodes) -> str:
    return f"{PAUSED}{nodes.name}"
