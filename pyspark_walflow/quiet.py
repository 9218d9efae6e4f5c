"""Time that passes while nothing comes: what the source of a pipeline with windows tells Spark of it.

A window is closed by time too, and Spark runs no batch without a new offset. So an offset may say what time it is:
while no event comes, one that is later by and by makes a batch of one row, without a value, that says the time. The
daemon's driver asks for this by options of its own, which are no options of a user's.
"""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

CLOSES: Final = "tick.closes.ns"
LEAST: Final = "tick.least.ns"
OWN: Final = frozenset({CLOSES, LEAST})
LATE_NS: Final = 1_000_000_000  # an event may have been stamped so long before it was in the log; as in the daemon
SHORTEST_NS: Final = 500_000_000  # between two ticks: a batch takes some tenths of a second
TICK_NS: Final = 100_000_000
STEPS: Final = 4  # ticks in the shortest interval of a window
RARER: Final = 10  # without an interval, the step is such a part of the time without an event


class Quiet(NamedTuple):
    """`closes_ns`: after so long a time without an event no window is open. `least_ns`: the shortest interval of one;
    0 where scripts for ticks say when a window closes. Then time is told without an end, and ever more rarely."""

    closes_ns: int
    least_ns: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Quiet | None":
        given = {name.lower(): value for name, value in options.items()}
        return cls(int(given[CLOSES]), int(given[LEAST])) if CLOSES in given else None

    def next(self, told: int, since: int, now: int) -> int | None:
        """The time to tell now, in nanoseconds; None: there is none to tell. `told`: the time that was told last;
        `since`: when an event came last."""
        last = since + self.closes_ns + TICK_NS
        if told > last:
            return None
        due = now - LATE_NS
        step = max(SHORTEST_NS, self.least_ns // STEPS)
        if not self.least_ns:
            step = max(step, (told - since) // RARER)
        return due if due >= told + step or due > last else None


def without_own(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() not in OWN}


def now_ns() -> int:
    return time.time_ns()
