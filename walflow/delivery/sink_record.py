"""What the sinks of a sender have taken, and which of them take nothing: by the rule of outage and poison
(walflow/outage.py)."""

from collections.abc import Set as AbstractSet
from typing import Final

from walflow.backoff import Backoff
from walflow.outage import Rounds

FIRST_WAIT: Final = 0.1  # seconds, after one failure
LAST_WAIT: Final = 10.0
BACKOFF: Final = Backoff(FIRST_WAIT, LAST_WAIT)
# Rounds of failures without anything taken, from which on events are only sent as probes. Two are a block's and its
# half's.
OUTAGE: Final = 3


class Probes(Rounds):
    """Parts of one kind, new or old, while everything fails."""

    def __init__(self) -> None:
        super().__init__(Backoff(FIRST_WAIT, LAST_WAIT))

    @property
    def only(self) -> bool:
        """They are only sent to find out whether the sink is back."""
        return self.row >= OUTAGE


class SinkRecord:
    """`count`: of outcomes, so far. Its sender counts them."""

    def __init__(self) -> None:
        self.count = 1
        self.new = Probes()
        self.old = Probes()
        self._taken: dict[str, int] = {}  # when each sink has taken something last
        self._since: dict[str, int] = {}  # the latest time at which what each sink has taken was sent
        self._highest: dict[str, int] = {}  # position that each sink has taken
        self._failing: set[str] = set()  # sinks that have taken nothing since they failed

    def __repr__(self) -> str:
        failing = ", ".join(sorted(self._failing)) or "none"
        return f"<SinkRecord {self.count} outcomes, failing: {failing}>"

    def took(
        self, names: AbstractSet[str], highest: int, sent: int, resolved: AbstractSet[str] = frozenset()
    ) -> bool:
        """These sinks have taken something, up to that position. `sent`: the count when it was sent. `resolved`: they
        had failed what is acked now; behind a round robin another one has taken it. True: an outage is over."""
        for name in names:
            self._taken[name] = self.count
            self._since[name] = max(sent + 1, self._since.get(name, 0))
            if highest > self._highest.get(name, 0):
                self._highest[name] = highest
        if not self._failing or (self._failing.isdisjoint(names) and self._failing.isdisjoint(resolved)):
            return False
        self._failing -= names | resolved
        if self._failing:
            return False
        outage = self.old.only or self.new.only
        self.old.took()
        self.new.took()
        return outage

    def taken(self, sinks: AbstractSet[str]) -> int:
        """When the newest thing that one of them has taken was sent. None of them is known: now. It is not when the
        outcome came: where several sinks get an event, that is when the last of them has it, and a sink may have
        taken it before it failed another one."""
        return max((self._since.get(sink, 0) for sink in sinks), default=self.count)

    def has_passed(self, sinks: AbstractSet[str], position: int) -> bool:
        """Whether one of them has taken something as new as that."""
        return any(self._highest.get(sink, 0) >= position for sink in sinks)

    def failed(self, sinks: AbstractSet[str], now: float, *, again: bool) -> bool:
        """Something failed at these sinks. `again`: not for the first time. True: from now on events of its kind are
        only probes."""
        if any(self._taken.get(sink, 0) == self.count for sink in sinks):
            return False  # it has taken other events of this very block
        self._failing |= sinks
        probes = self.old if again else self.new
        return probes.failed(now) and probes.only
