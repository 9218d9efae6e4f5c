"""Connector types: what the entry-point group `walflow.connectors` names."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint

from walflow.contract import CONTRACT, CodecUse, Connector, Traits
from walflow.plugins import NotLoadable, Plugins, discover, load
from walflow.roles import CONNECTORS

WHAT = "connector type"

Registry = Mapping[str, type[Connector]]


def connectors() -> Plugins[type[Connector]]:
    """Raises NotLoadable where two distributions claim one type, or none registers any."""
    return _connectors(tuple(sys.path))


@cache
def _connectors(path: tuple[str, ...]) -> Plugins[type[Connector]]:
    """Each distribution on `path` is a file to read: 5 ms, and `walflow check` asks for each of its flows."""
    return discover(CONNECTORS, WHAT, _checked)


def find(kind: str, registry: Registry) -> type[Connector] | None:
    """A registered type, or `package.module:Class`. Raises NotLoadable."""
    if ":" in kind:
        return load(EntryPoint(kind, kind, CONNECTORS), WHAT, _checked)
    return registry.get(kind)


def _checked(named: str, found: object) -> type[Connector]:
    if not (isinstance(found, type) and issubclass(found, Connector)):
        raise NotLoadable(f"{named} is no subclass of walflow.Connector")
    if found.contract > CONTRACT:
        newer = f"is written for version {found.contract} of the contract, and this walflow has {CONTRACT}"
        raise NotLoadable(f"{named} {newer}: install a newer walflow")
    for name in Traits._fields:
        if isinstance(getattr(found, name, None), bool | tuple | CodecUse):
            moved = f"sets `{name}` on its class: since version 2 of the contract it stands in `traits`"
            raise NotLoadable(f"{named} {moved}, as `traits: ClassVar[Traits] = Traits({name}=…)`")
    return found
