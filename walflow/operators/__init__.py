"""The operators by the names flow files know them by, and how selects are run."""

from collections.abc import Mapping
from typing import Final

from walflow.operators.operator import Exit, Operator, Place, Running, StandIn, Window
from walflow.operators.passthrough import Passthrough
from walflow.operators.roundrobin import RoundRobin
from walflow.operators.wal import Wal

__all__ = ["OPERATORS", "Exit", "Operator", "Place", "Running", "StandIn", "Window"]

OPERATORS: Final[Mapping[str, type[Operator]]] = {
    "passthrough": Passthrough,
    "qos::roundrobin": RoundRobin,
    "qos::wal": Wal,
}
