"""What events are looked at for: the script of a window gives a time in nanoseconds, or how much of the window's size an
event takes; most aggregates take a number."""

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import is_number, is_whole, kind_of


def measured(value: object) -> int:
    if not is_whole(value) or value < 0:
        shown = f"{value}" if is_whole(value) else kind_of(value)
        raise CannotApply(f"the script of a window gives a whole number from 0 on, not {shown}")
    return value


def number(name: str, value: object) -> int | float:
    """`name`: of the aggregate."""
    if not is_number(value):
        raise CannotApply(f"`{name}`: it takes a number, not {kind_of(value)}")
    return value
