"""The operators by the names flow files know them by: what the entry-point group `walflow.operators` names. And how
selects are run."""

from functools import cache
from typing import Final

from walflow.operators.operator import Operator, OperatorContext, OutPort, Running, StandIn, WindowLimits
from walflow.plugins import NotLoadable, Plugins, discover

__all__ = ["GROUP", "Operator", "OperatorContext", "OutPort", "Running", "StandIn", "WindowLimits", "registered"]

GROUP: Final = "walflow.operators"


@cache
def registered() -> Plugins[type[Operator]]:
    """Raises NotLoadable where two distributions claim one name."""
    return discover(GROUP, "operator", _checked)


def _checked(named: str, found: object) -> type[Operator]:
    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise NotLoadable(f"{named} is no subclass of walflow.Operator")
    return found
