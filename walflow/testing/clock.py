"""A clock for tests."""

from walflow.testing.world import VirtualScheduler

START_NS = 1_700_000_000_000_000_000


class VirtualClock:
    """`walflow.clock.Clocks`: goes as fast as the scheduler's time, and `turn` sets its wall clock."""

    def __init__(self, scheduler: VirtualScheduler, wall_ns: int = START_NS) -> None:
        self._scheduler = scheduler
        self._start_ns = wall_ns

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.wall_ns()}>"

    def wall_ns(self) -> int:
        return self._start_ns + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        return round(self._scheduler.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Its time goes by hand."""

    def turn(self, seconds: float) -> None:
        """Sets the wall clock forward, or back if it is less than 0."""
        self._start_ns += round(seconds * 1e9)
