"""What events are looked at for: the script of a window gives a time in nanoseconds, or how much of the window's size
an event takes; most aggregates take a number."""

from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import is_number, is_whole, kind_of


def measured(value: object) -> int:
    if not is_whole(value) or value < 0:
        shown = f"{value}" if is_whole(value) else kind_of(value)
        raise CannotApply(f"the script of a window gives a whole number from 0 on, not {shown}")
    return value


OPEN: Final = 0
AFTER: Final = 1  # the window closes with the event in it
BEFORE: Final = 2  # it closes, and the event goes into the next one


def verdict_of(value: object) -> int:
    """What the script of a window with a `state` says: `true`, `false`, or `[emit, include]`."""
    if value is True or value == [True, True]:
        return AFTER
    if value is False or value in ([False, True], [False, False]):
        return OPEN
    if value == [True, False]:
        return BEFORE
    said = "gives true, false or an array of two of them, the second one whether the event is in the window"
    raise CannotApply(f"the script of a window with a `state` {said}, not {kind_of(value)}")


def number(name: str, value: object) -> int | float:
    """`name`: of the aggregate."""
    if not is_number(value):
        raise CannotApply(f"`{name}`: it takes a number, not {kind_of(value)}")
    return value
