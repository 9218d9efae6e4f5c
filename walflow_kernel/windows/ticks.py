"""When windows with an interval are closed: at the first multiple of 100 ms at which they are due, before any later event.

Windows of one select and one interval open in the order of time, so they are due in that order: what waits is a list.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from walflow_kernel.state import Room
from walflow_kernel.windows.frame import FILL, GROUP, Frame

TICK_NS: Final = 100_000_000

Waiting = list[list[Any]]  # [tick, group, group, …], the earliest first


def tick_of(due: int) -> int:
    return -(-due // TICK_NS) * TICK_NS


def wait(waiting: Waiting, frame: Frame) -> None:
    """Its window has opened, and knows when it is due."""
    tick, group = tick_of(frame[FILL]), frame[GROUP][-1]
    if waiting and waiting[-1][0] == tick:
        waiting[-1].append(group)
    else:
        waiting.append([tick, group])


def due_by(now: int, lists: Sequence[Waiting], room: Room) -> Iterator[tuple[int, int, str]]:
    """What is due by now, taken off its list: the tick, the list's number, the group. In the order of time; of one tick in
    the order of the lists. What is closed on the way may add to them, for later ticks. It ends early where there is no more
    room; what is left stays on its list."""
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
