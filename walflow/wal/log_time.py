"""The time of a log, by which it stamps its records. It never goes back, because windows are closed by stamps, and it
never stands still, because they would have no length then.

As a rule it is the wall clock. Once that was set back, or is behind the last record that a start found, log time goes
on from where it was, as fast as the monotonic clock. How far it is ahead of the wall clock is the lead. The lead ends
when the wall clock is set forward, or was overtaken while the log was closed.
"""

from walflow.clock import Clocks


class LogTime:
    """`last_ns`: the last stamp. `lead_ns`: as of the last `look`."""

    __slots__ = ("_ahead", "_clock", "last_ns", "lead_ns")

    def __init__(self, clock: Clocks, last_ns: int) -> None:
        self._clock = clock
        self.last_ns = last_ns
        self.lead_ns = 0
        self._ahead = clock.wall_ns() - clock.monotonic_ns()  # of the monotonic clock; it only grows
        self.look()

    def __repr__(self) -> str:
        return f"<LogTime at {self.last_ns}, {self.lead_ns / 1e9:.3f} s ahead>"

    def look(self) -> None:
        """Sees whether the wall clock was set."""
        clock = self._clock
        # The thread may be stopped between two of them for as long as it likes. So the wall clock counts as early as
        # it can be for what log time was, and as late as it can be for what the lead is: no lead is ever seen that
        # there is not.
        before, wall, after = clock.monotonic_ns(), clock.wall_ns(), clock.monotonic_ns()
        self._ahead = max(self._ahead, max(wall, self.last_ns) - after)
        self.lead_ns = max(0, self._ahead - (wall - before))

    def now_ns(self) -> int:
        self.look()
        return self._clock.monotonic_ns() + self._ahead if self.lead_ns else self._clock.wall_ns()

    def stamp(self, received_ns: int) -> int:
        """The stamp of a record that came in at this time by the wall clock."""
        if self.lead_ns:  # and no later than now: it may have come in before the wall clock was set
            received_ns = min(received_ns + self.lead_ns, self._clock.monotonic_ns() + self._ahead)
        self.last_ns = max(self.last_ns, received_ns)
        return self.last_ns
