"""The clocks of the machine. What needs one is given `Clocks`, so that a test can turn it.

The wall clock says what time it is, for people and for stamps. It is set: by NTP, by hand, when a machine wakes up.
The monotonic clock is not, so it measures ages and deadlines. It means nothing in another process.
"""

import time
from typing import Protocol


class Clocks(Protocol):
    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment before the process began."""
        ...

    def sleep(self, seconds: float) -> None:
        """For a job on a thread: the loop has its own."""
        ...


class SystemClock:
    """The operating system's."""

    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
