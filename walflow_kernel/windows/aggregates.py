"""The functions of `aggr::`: what each keeps in the slots of a frame.

An event is added to all aggregates of a frame or to none: what could fail (a value that is no number) is looked at
before. So all that a frame needs to know of how many values there were is its `count`. Adding and merging find it in
the frame: `add` runs behind the counting of its event, `merge` before the counts are added up.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.state import HEAD_BYTES, SMALL_BYTES, size_of
from walflow_kernel.values import LONGEST
from walflow_kernel.windows.frame import COUNT, Frame

ITEM_BYTES: Final = 8  # of an array, for each of its items beside the item


class Aggregate(NamedTuple):
    """`keeps`: what its slots are called; two of the same arguments that keep the same have them in common. `start`
    gives the slots of a window without events. `add` says how many bytes they have grown by; `held`, of an aggregate
    whose slots grow, how many bytes beyond those of `start` they hold. `check` refuses what `add` could not take,
    before anything is added. `result` is given the constant argument that the function has, or None."""

    keeps: str
    start: Callable[[], list[object]]
    add: Callable[[Frame, int, Any], int]
    merge: Callable[[Frame, int, Frame], None]
    result: Callable[[Frame, int, Any], object]
    check: Callable[[Frame, int, Any], None] | None = None
    held: Callable[[Frame, int], int] | None = None


def _count_only(frame: Frame, at: int, value: object) -> int:
    return 0


def _nothing(frame: Frame, at: int, value: object) -> None: ...


def _count(frame: Frame, at: int, option: object) -> object:
    return frame[COUNT]


def finite(result: float) -> float:
    if not math.isfinite(result):
        raise CannotApply("the result is larger than a float can be")
    return result


# ---- sums


def add_sum(frame: Frame, at: int, value: float) -> int:
    frame[at] += value
    return 0


def _merge_sum(into: Frame, at: int, frame: Frame) -> None:
    into[at] += frame[at]


def _sum(frame: Frame, at: int, option: object) -> object:
    return finite(float(frame[at]))


def _mean(frame: Frame, at: int, option: object) -> object:
    return finite(frame[at] / frame[COUNT])


# ---- the least and the most


def add_min(frame: Frame, at: int, value: float) -> int:
    if frame[COUNT] == 1 or value < frame[at]:
        frame[at] = value
    return 0


def add_max(frame: Frame, at: int, value: float) -> int:
    if frame[COUNT] == 1 or value > frame[at]:
        frame[at] = value
    return 0


def _merge_min(into: Frame, at: int, frame: Frame) -> None:
    if not into[COUNT] or frame[at] < into[at]:
        into[at] = frame[at]


def _merge_max(into: Frame, at: int, frame: Frame) -> None:
    if not into[COUNT] or frame[at] > into[at]:
        into[at] = frame[at]


# ---- spread: the mean, and the sum of the squared distances from it (Welford; two of them by Chan)


def add_spread(frame: Frame, at: int, value: float) -> int:
    distance = value - frame[at]
    frame[at] += distance / frame[COUNT]
    frame[at + 1] += distance * (value - frame[at])
    return 0


def merge_spread(into: Frame, at: int, frame: Frame) -> None:
    ours, theirs = into[COUNT], frame[COUNT]
    distance = frame[at] - into[at]
    into[at] += distance * theirs / (ours + theirs)
    into[at + 1] += frame[at + 1] + distance * distance * ours * theirs / (ours + theirs)


def _variance(frame: Frame, at: int, option: object) -> object:
    """Of a sample; None for one value, which has none."""
    return finite(frame[at + 1] / (frame[COUNT] - 1)) if frame[COUNT] > 1 else None


def _deviation(frame: Frame, at: int, option: object) -> object:
    return math.sqrt(finite(frame[at + 1] / (frame[COUNT] - 1))) if frame[COUNT] > 1 else None


# ---- values


def add_first(frame: Frame, at: int, value: object) -> int:
    return add_last(frame, at, value) if frame[COUNT] == 1 else 0


def add_last(frame: Frame, at: int, value: object) -> int:
    before, frame[at] = frame[at], value
    return size_of(value) - size_of(before)


def _held_value(frame: Frame, at: int) -> int:
    return size_of(frame[at]) - SMALL_BYTES


def _merge_first(into: Frame, at: int, frame: Frame) -> None:
    if not into[COUNT]:
        into[at] = frame[at]


def _merge_last(into: Frame, at: int, frame: Frame) -> None:
    into[at] = frame[at]


def add_item(frame: Frame, at: int, value: object) -> int:
    grown = ITEM_BYTES + size_of(value)
    frame[at].append(value)
    frame[at + 1] += grown
    return grown


def _held_items(frame: Frame, at: int) -> int:
    held: int = frame[at + 1]
    return held


def _check_items(frame: Frame, at: int, value: object) -> None:
    if len(frame[at]) >= LONGEST:
        raise CannotApply(f"the window holds {LONGEST:,} values already, and collects no more")


def _merge_flat(into: Frame, at: int, frame: Frame) -> None:
    left = LONGEST - len(into[at])
    if len(frame[at]) <= left:
        into[at] += frame[at]
        into[at + 1] += frame[at + 1]
        return
    for value in frame[at][:left]:
        add_item(into, at, value)


def _merge_nested(into: Frame, at: int, frame: Frame) -> None:
    if len(into[at]) < LONGEST:
        into[at].append(frame[at])
        into[at + 1] += ITEM_BYTES + HEAD_BYTES + frame[at + 1]


def value_at(frame: Frame, at: int, option: object) -> object:
    return frame[at]


def _float_at(frame: Frame, at: int, option: object) -> object:
    return float(frame[at])


def _start_sum() -> list[object]:
    return [0]


def _start_spread() -> list[object]:
    return [0.0, 0.0]


def _start_value() -> list[object]:
    return [None]


def _start_items() -> list[object]:
    return [[], 0]  # and their bytes


COUNTING: Final = Aggregate("", list, _count_only, _nothing, _count)
SUM: Final = Aggregate("sum", _start_sum, add_sum, _merge_sum, _sum)
MEAN: Final = SUM._replace(result=_mean)
MIN: Final = Aggregate("min", _start_value, add_min, _merge_min, _float_at)
MAX: Final = Aggregate("max", _start_value, add_max, _merge_max, _float_at)
VAR: Final = Aggregate("spread", _start_spread, add_spread, merge_spread, _variance)
STDEV: Final = VAR._replace(result=_deviation)
FIRST: Final = Aggregate("first", _start_value, add_first, _merge_first, value_at, held=_held_value)
LAST: Final = Aggregate("last", _start_value, add_last, _merge_last, value_at, held=_held_value)
FLAT: Final = Aggregate("flat", _start_items, add_item, _merge_flat, value_at, _check_items, _held_items)
NESTED: Final = Aggregate("nested", _start_items, add_item, _merge_nested, value_at, _check_items, _held_items)
