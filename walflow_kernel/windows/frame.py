"""Where things stand in a frame: what one window of one group holds.

    [group, next, count, fill, slots of the first aggregate, of the second, …]

`group` is the group's array, as the language sees it; `next` the frame of the window behind this one, or None.
`count`: events; 0 where the window is not open. `fill`: of a window with a size how much of it is used, of one with
an interval when it is due, in nanoseconds. Of one with a `state` the cell of its state, with two numbers more if it
has a script for ticks: when the last event of its group came, and the next tick, or 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, Final

Frame = list[Any]

GROUP: Final = 0
NEXT: Final = 1
COUNT: Final = 2
FILL: Final = 3
SLOTS: Final = 4

_NEXT: Final = itemgetter(NEXT)
_COUNT: Final = itemgetter(COUNT)
_FILL: Final = itemgetter(FILL)

HEARD: Final = 3  # in the cell of a state
NEXT_TICK: Final = 4


WINDOWS: Final = "//"  # in the names of cells with windows, and of no other


def windows_of(state: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """What the selects with windows keep: `groups`, `waiting` and `late`."""
    return [cell[0] for place, cell in state.items() if WINDOWS in place]


def open_frames(windows: Mapping[str, Any]) -> list[Frame]:
    """Those that hold events."""
    found: list[Frame] = []
    for frames in _by_window(windows):
        found += compress(frames, map(_COUNT, frames))
    return found


def opened_at(windows: Mapping[str, Any], intervals: Sequence[int | None]) -> int | None:
    """When the oldest open window by interval opened. `intervals`: of the windows of each group, in their order."""
    found: list[int] = []
    for frames, interval in zip(_by_window(windows), intervals, strict=False):
        due = min(compress(map(_FILL, frames), map(_COUNT, frames)), default=None)
        if interval is not None and due is not None:
            found.append(due - interval)
    return min(found, default=None)


def _by_window(windows: Mapping[str, Any]) -> Iterator[list[Frame]]:
    """The first frame of each group, then the second, …, without a step of Python for each: there may be a million
    groups, and a metric is read while everything else waits."""
    frames = [*windows["groups"].values()]
    while frames:
        yield frames
        frames = [*filter(None, map(_NEXT, frames))]


def chain(first: Frame) -> Iterator[Frame]:
    """This window, and those behind it."""
    frame: Frame | None = first
    while frame is not None:
        yield frame
        frame = frame[NEXT]


def holds_nothing(first: Frame) -> bool:
    """Neither this window nor one behind it."""
    frame: Frame | None = first
    while frame is not None:
        if frame[COUNT] or frame[FILL]:
            return False
        frame = frame[NEXT]
    return True
