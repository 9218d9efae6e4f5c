"""std::time::nanos: spans of time are whole numbers of nanoseconds."""

from collections.abc import Callable, Mapping
from typing import Final

from walflow_kernel.functions import Function, function
from walflow_kernel.std.integer import sized

_UNITS: Final = {
    "micros": 1_000,
    "millis": 1_000_000,
    "seconds": 1_000_000_000,
    "minutes": 60 * 1_000_000_000,
    "hours": 3_600 * 1_000_000_000,
    "days": 86_400 * 1_000_000_000,
    "weeks": 7 * 86_400 * 1_000_000_000,
}


def _from(unit: int) -> Callable[[int], int]:
    def from_unit(count: int) -> int:
        return sized(count * unit)

    return from_unit


def _to(unit: int) -> Callable[[int], int]:
    def to_unit(nanos: int) -> int:
        return nanos // unit

    return to_unit


def _truncated(unit: int) -> Callable[[int], int]:
    def truncate_to_unit(nanos: int) -> int:
        return sized(nanos - nanos % unit)

    return truncate_to_unit


FUNCTIONS: Mapping[str, Function] = {
    **{f"from_{name}": function(_from(unit)) for name, unit in _UNITS.items()},
    **{f"to_{name}": function(_to(unit)) for name, unit in _UNITS.items()},
    **{f"truncate_{name}": function(_truncated(unit)) for name, unit in _UNITS.items()},
}
