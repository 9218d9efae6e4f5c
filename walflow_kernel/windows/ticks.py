"""When time alone looks at windows: at multiples of 100 ms, before any later event.

A window with an interval is closed at the first one at which it is due. Windows of one select and one interval open
in the order of time, so they are due in that order: what waits is a list.

A window with a script for ticks runs it at each of them, while its group has a window that is open. In a group that
has been quiet for a minute, ticks become rarer: the time between two is a three-hundredth of the time without an
event, at most. So an hour that a log says nothing of is 2,000 ticks a group and not 36,000, and a clock that jumps
from 1970 is 10,000.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from walflow_kernel.state import Cell, Room, cell
from walflow_kernel.windows.frame import FILL, GROUP, HEARD, NEXT_TICK, Frame

TICK_NS: Final = 100_000_000
QUIET_NS: Final = (
    60_000_000_000  # without an event: from then on the time between two ticks doubles whenever this does
)
RUN_BYTES: Final = 64  # what a script at a tick takes of a call's room: it ends after some 65,000

Waiting = list[list[Any]]  # [tick, group, group, …], the earliest first


def tick_of(due: int) -> int:
    return -(-due // TICK_NS) * TICK_NS


def tick_after(now: int, heard: int) -> int:
    """The next one of a group whose last event came at `heard`."""
    between = TICK_NS << (max(now - heard, 0) // QUIET_NS).bit_length()
    return now // between * between + between


def ticked_cell(begins: object) -> Cell:
    return [*cell(begins), -1, 0]


def wait(waiting: Waiting, frame: Frame) -> None:
    """Its window has opened, and knows when it is due."""
    _put(waiting, tick_of(frame[FILL]), frame[GROUP][-1])


def hear(waiting: Waiting, frame: Frame, at: int) -> None:
    """An event of its group came, and its window, which has a script for ticks, is open."""
    kept = frame[FILL]
    kept[HEARD] = at
    tick = tick_after(at, at)
    if not 0 < kept[NEXT_TICK] <= tick:
        kept[NEXT_TICK] = tick
        _put(waiting, tick, frame[GROUP][-1])


def wait_on(waiting: Waiting, frame: Frame, at: int) -> None:
    """Its window is open after the tick."""
    kept = frame[FILL]
    tick = kept[NEXT_TICK] = tick_after(at, kept[HEARD])
    _put(waiting, tick, frame[GROUP][-1])


def _put(waiting: Waiting, tick: int, group: str) -> None:
    """Near the end: there are as many ticks as there are times between two of them, twice."""
    at = len(waiting)
    while at and waiting[at - 1][0] > tick:
        at -= 1
    if at and waiting[at - 1][0] == tick:
        waiting[at - 1].append(group)
    else:
        waiting.insert(at, [tick, group])


def ticks_at(frame: Frame, at: int) -> bool:
    """Whether the script for ticks has something to do: since then its window may have closed,
    or an event may have come."""
    kept = frame[FILL]
    return bool(kept) and kept[NEXT_TICK] == at


def due_by(now: int, lists: Sequence[Waiting], room: Room) -> Iterator[tuple[int, int, str]]:
    """What is due by now, taken off its list: the tick, the list's number, the group. In the order of time; of one
    tick in the order of the lists. What is closed on the way may add to them, for later ticks. It ends early where
    there is no more room; what is left stays on its list."""
    while True:
        heads = [(waiting[0][0], number) for number, waiting in enumerate(lists) if waiting]
        if not heads or min(heads)[0] > now:
            return
        tick, number = min(heads)
        due = lists[number].pop(0)
        for at in range(1, len(due)):
            if room[0] < 0:
                lists[number].insert(0, [tick, *due[at:]])
                return
            yield tick, number, due[at]


def earliest(lists: Sequence[Waiting]) -> int | None:
    return min((waiting[0][0] for waiting in lists if waiting), default=None)
