"""Connector types: what the entry-point group `walflow.connectors` names."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint

from walflow.contract import Connector
from walflow.plugins import NotLoadable, Plugins, discover, load

GROUP = "walflow.connectors"
WHAT = "connector type"

Registry = Mapping[str, type[Connector]]


def connectors() -> Plugins[type[Connector]]:
    """Raises NotLoadable where two distributions claim one type, or none registers any."""
    return _connectors(tuple(sys.path))


@cache
def _connectors(path: tuple[str, ...]) -> Plugins[type[Connector]]:
    """Each distribution on `path` is a file to read: 5 ms, and `walflow check` asks for each of its flows."""
    return discover(GROUP, WHAT, _checked)


def find(kind: str, registry: Registry) -> type[Connector] | None:
    """A registered type, or `package.module:Class`. Raises NotLoadable."""
    if ":" in kind:
        return load(EntryPoint(kind, kind, GROUP), WHAT, _checked)
    return registry.get(kind)


def _checked(named: str, found: object) -> type[Connector]:
    if not (isinstance(found, type) and issubclass(found, Connector)):
        raise NotLoadable(f"{named} is no subclass of walflow.Connector")
    return found
