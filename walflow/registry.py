"""Connector types: what the entry-point group `walflow.connectors` names."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from walflow.contract import Connector
from walflow.plugins import NotLoadable, Plugins, discover, load

GROUP = "walflow.connectors"
WHAT = "connector type"

Registry = Mapping[str, type[Connector]]


def connectors() -> Plugins[type[Connector]]:
    """Raises NotLoadable where two distributions claim one type, or none registers any."""
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
