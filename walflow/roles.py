"""Which connector type has a role of its own in flows.

walflow puts some connectors into a flow itself: a log for `qos::wal`, a buffer for results, an engine for a pipeline.
It knows no type's name for that: the entry-point group `walflow.roles` says which connector has which role. The name
of the type with the role `engine` is what `#!config engine` and `--engine` may say besides `daemon`.
"""

import sys
from functools import cache
from typing import Final, Literal

from walflow.plugins import NotLoadable, discover

CONNECTORS: Final = "walflow.connectors"
ROLES: Final = "walflow.roles"
DAEMON: Final = "daemon"

Role = Literal["buffer", "engine", "log", "replayer"]
"""`buffer`: holds events in memory, within `max_elements` and `max_bytes`. `log`: holds them on disk, in `path`.
`engine`: holds them on disk, and runs a pipeline on what it holds: a `walflow.PipelineHost`. `replayer`: sends again
what a log has: a `walflow.LogReplayer`."""


def type_of(role: Role) -> str:
    """The connector type that has the role. Raises NotLoadable where there is none,
    or where two distributions claim it."""
    return _type_of(role, tuple(sys.path))


def engines() -> tuple[str, str]:
    """Where a pipeline can run. Raises NotLoadable."""
    return DAEMON, type_of("engine")


@cache
def _type_of(role: Role, path: tuple[str, ...]) -> str:
    """Each distribution on `path` is a file to read."""
    roles, types = discover(ROLES, "role", _unread), discover(CONNECTORS, "connector type", _unread)
    if role not in roles:
        raise NotLoadable(f"no connector has the role {role}: is walflow installed? (pip install -e .)")
    reference = roles.reference(role)
    return next((name for name in types if types.reference(name) == reference), reference)


def _unread(_named: str, found: object) -> object:
    return found
