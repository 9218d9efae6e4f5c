"""Connector types: what the entry-point group `walflow.connectors` names.

walflow puts some connectors into a flow itself: a log for `qos::wal`, a buffer for results. It knows no type's name
for that: the group `walflow.roles` says which connector has which role.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Final, Literal

from walflow.contract import CONTRACT, CodecUse, Connector, Traits
from walflow.plugins import NotLoadable, Plugins, discover, load

GROUP = "walflow.connectors"
WHAT = "connector type"
ROLES: Final = "walflow.roles"

Role = Literal["buffer", "engine", "log"]
"""`buffer`: holds events in memory, within `max_elements` and `max_bytes`. `log`: holds them on disk, in `path`.
`engine`: holds them on disk, and runs a pipeline of its own on what it holds."""

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


def type_of(role: Role) -> str:
    """The connector type that has the role. Raises NotLoadable where there is none,
    or where two distributions claim it."""
    roles, types = discover(ROLES, "role", _checked), connectors()
    if role not in roles:
        raise NotLoadable(f"no connector has the role {role}: is walflow installed? (pip install -e .)")
    reference = roles.reference(role)
    return next((name for name in types if types.reference(name) == reference), reference)


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
