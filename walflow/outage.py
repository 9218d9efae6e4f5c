"""Outage or poison: the rule of decision 0047, for every sink and for the re-sender. What else gets through decides.

- Nothing gets through: an outage. Its failures are counted in rounds, at waits that grow (`Rounds`), and count
  against no event.
- One event fails while others get through: it may be to blame (`Blame`). Who sends it gives it up after so many
  failures that count.

Plain values: they know no clock, and no peer.
"""

from math import inf
from typing import Final, NamedTuple

from walflow.backoff import Backoff


class Blame(NamedTuple):
    """The failures of an event, or of several that are sent together. `tries`: all of them. `counted`: those that
    count against it, of which the first failure never is one. `taken`: how much its peer had taken when it failed
    last."""

    tries: int = 0
    counted: int = 0
    taken: float = inf

    def suspects(self, taken: int) -> bool:
        """Whether it may be to blame for a failure now: its peer has taken so much, so it has taken something
        since."""
        return taken > self.taken

    def failed(self, taken: int, *, counts: bool, events: int = 1) -> "Blame":
        """One failure more. It counts against an event that is alone."""
        return Blame(self.tries + 1, self.counted + (counts and events == 1), taken)


NO_BLAME: Final = Blame()


class Rounds:
    """The failures of a peer that takes nothing, in rounds. What fails while the wait after a round lasts belongs to
    it: it is the same trouble. `row`: rounds since something was taken. `ends`: when the present one does. `due`:
    when the next try may be."""

    def __init__(self, backoff: Backoff) -> None:
        self.row = 0
        self.ends = 0.0
        self.due = 0.0
        self._backoff = backoff

    def __repr__(self) -> str:
        return f"<Rounds {self.row} in a row, the next try at {self.due:.1f} s>"

    def failed(self, now: float) -> bool:
        """Whether a round begins with this failure."""
        if now < self.ends:
            return False
        self.begin(now)
        return True

    def begin(self, now: float, least: float = 0.0) -> None:
        """One begins. `least`: seconds that its wait has at least."""
        self.row += 1
        self.ends = self.due = now + max(self._backoff.next(), least)

    def tried(self, now: float) -> None:
        """Something is sent to find out whether the peer is back."""
        self.due = now + self._backoff.after(self.row)

    def took(self) -> None:
        """The peer takes something: it is over."""
        if self.row:
            self.row = 0
            self.ends = self.due = 0.0
            self._backoff.reset()
