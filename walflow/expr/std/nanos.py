"""std::time::nanos: spans of time are whole numbers of nanoseconds."""

from collections.abc import Callable, Mapping

from walflow.expr.constant import kind_of
from walflow.expr.operators import CannotApply

_UNITS = {
    "micros": 1_000,
    "millis": 1_000_000,
    "seconds": 1_000_000_000,
    "minutes": 60 * 1_000_000_000,
    "hours": 3_600 * 1_000_000_000,
    "days": 86_400 * 1_000_000_000,
    "weeks": 7 * 86_400 * 1_000_000_000,
}


def _from(unit: int) -> Callable[[object], int]:
    return lambda count: _whole(count) * unit


def _to(unit: int) -> Callable[[object], int]:
    return lambda nanos: _whole(nanos) // unit


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CannotApply(f"it takes a whole number, not {kind_of(value)}")
    return value


FUNCTIONS: Mapping[str, Callable[[object], int]] = {
    **{f"from_{name}": _from(unit) for name, unit in _UNITS.items()},
    **{f"to_{name}": _to(unit) for name, unit in _UNITS.items()},
}
