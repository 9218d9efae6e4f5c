"""What a sink has in hand, and which part of it is tried next: decision 0047 has the rule.

While something gets through, the sink is well: a part that fails is tried again after a wait of its own, and others
pass it. If nothing gets through, the sink is away: one part is tried at a time, at growing waits, and failures count
against no event. Either way a part of several events that fails is divided, until the event that fails is alone.

    queue.add(parts)
    while (held := queue.next(now)) is not None: send it; its outcome is `passed` or `failed`
    wait for an outcome, for a new part, or `queue.due(now)` seconds
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from walflow.backoff import Backoff
from walflow.outage import Blame, Rounds

P = TypeVar("P")

NO_KEYS: Final[frozenset[int]] = frozenset()
UNORDERED: Final = -1  # the lane of parts that may pass each other
SEARCH: Final = (
    14  # halves that are tried without a wait, in search of an event that passes; two times those of a hundred events
)


class Failure(NamedTuple):
    """`patience`: so often in a row a part may fail before others are tried in its place. `counts`: the part may be
    to blame. `wait`: seconds that the peer asks for."""

    patience: float
    counts: bool
    wait: float = 0.0


class FailureVerdict(Enum):
    """On a part that failed."""

    KEPT = "it is tried again"
    DIVIDED = "it is to be divided: call `divide`"
    GIVEN_UP = "it has used up its attempts: it fails"


class HeldPart(Generic[P]):
    """`blame`: its failures, in all and those that count against it."""

    __slots__ = (
        "blame",
        "cause",
        "due",
        "events",
        "keys",
        "lane",
        "part",
        "place",
        "round",
        "tried",
        "turns",
        "untried",
    )

    def __init__(self, part: P, events: int, place: int, lane: int, keys: frozenset[int] | None) -> None:
        self.part = part
        self.events = events
        self.place = place
        self.lane = lane
        self.keys = keys  # None: not known yet
        self.blame = Blame()
        self.cause = ""  # why it failed last
        self.due = 0.0
        self.turns = False  # others may be tried in its place
        self.round = 0  # the wait after which it was sent
        self.tried = 0  # a number that grows
        self.untried = True  # as it is: it may be a half of what has failed

    def __repr__(self) -> str:
        return f"<HeldPart of {self.events} at {self.place}, {self.blame}>"

    @property
    def failures(self) -> int:
        return self.blame.tries

    @property
    def counted(self) -> int:
        return self.blame.counted

    def __lt__(self, other: "HeldPart[P]") -> bool:
        return self.place < other.place


class _Lane(Generic[P]):
    """If it is ordered, one part of it is under way at a time, and none passes one with an equal key."""

    __slots__ = ("failed", "fresh", "number", "under_way")

    def __init__(self, number: int) -> None:
        self.number = number
        self.fresh: deque[HeldPart[P]] = deque()
        self.failed: list[HeldPart[P]] = []
        self.under_way = 0

    @property
    def ordered(self) -> bool:
        return self.number != UNORDERED

    @property
    def stands(self) -> bool:
        return self.ordered and self.under_way > 0


class RetryQueue(Generic[P]):
    """`slots`: parts that may be under way. `attempts`: failures that count before a part of one event is given up.
    `most`: failures before it is given up in any case; None: no limit. `keys_of`: of the parts of ordered lanes."""

    def __init__(
        self,
        slots: int,
        attempts: int,
        backoff: Backoff,
        *,
        most: int | None = None,
        keys_of: Callable[[P], frozenset[int]] = lambda _: NO_KEYS,
    ) -> None:
        self.failing = False  # nothing gets through
        self.rounds = Rounds(backoff)
        self._slots = slots
        self._attempts = attempts
        self._backoff = backoff
        self._most = most
        self._keys_of = keys_of
        self._lanes: dict[int, _Lane[P]] = {}
        self._under_way: dict[HeldPart[P], None] = {}
        self._due = 0.0
        self._place = self._taken = self._round = self._trial = 0
        self._new_turn = False
        self._searched = 0  # halves, since something got through
        self._half: HeldPart[P] | None = None  # of the part that is searched: it may be tried at once
        self._asked = False  # for something new, beside what has failed
        self._at_once = False  # it came

    def __repr__(self) -> str:
        held = sum(len(lane.fresh) + len(lane.failed) for lane in self._lanes.values())
        return f"<RetryQueue {held} wait, {len(self._under_way)} under way, {self.rounds!r}>"

    # what comes and what goes

    def add(self, parts: Iterable[tuple[P, int]], lane: int = UNORDERED) -> None:
        """Parts, each with the number of its events. Those of one `lane` keep their order, as far as their keys are
        equal."""
        for part, events in parts:
            self._lane(lane).fresh.append(self._held(part, events, self._place, lane))
            self._place += events

    def next(self, now: float) -> HeldPart[P] | None:
        """The part to send now."""
        if len(self._under_way) >= self._slots:
            return None
        held = self._probe(now) if self.failing else self._first(now)
        if held is None:
            return None
        lane = self._lanes[held.lane]
        if held in lane.failed:
            lane.failed.remove(held)
        elif held is lane.fresh[0]:
            lane.fresh.popleft()
        else:
            lane.fresh.remove(held)
        lane.under_way += 1
        self._under_way[held] = None
        self._trial += 1
        held.tried = self._trial
        held.untried = False
        held.round = self._round
        if held is self._half:
            held.round = -1  # what fails between two waits counts as one failure
            self._searched += 1
        return held

    def passed(self, held: HeldPart[P]) -> None:
        """The peer has taken it, or refused it for good."""
        self._ended(held)
        self._taken += 1
        self._forget_lane(held.lane)
        if self.rounds.row:
            self.failing = self._asked = self._at_once = False
            self._searched = 0
            self._half = None
            self._due = 0.0
            self.rounds.took()

    def failed(self, held: HeldPart[P], now: float, failure: Failure) -> FailureVerdict:
        self._ended(held)
        counts = failure.counts and held.blame.suspects(self._taken)
        held.blame = held.blame.failed(self._taken, counts=counts, events=held.events)
        held.turns = held.failures >= failure.patience
        if held.round == self._round:
            self._grow(held, now, failure)
        held.due = now + self._backoff.after(held.failures)
        if failure.counts and held.events > 1 and (counts or held.turns or self._may_search()):
            return FailureVerdict.DIVIDED
        if held is self._half:
            self._half = None
        if held.counted >= self._attempts or (self._most is not None and held.failures > self._most):
            self._forget_lane(held.lane)
            return FailureVerdict.GIVEN_UP
        insort(self._lanes[held.lane].failed, held)
        return FailureVerdict.KEPT

    def divide(self, held: HeldPart[P], parts: Sequence[tuple[P, int]]) -> None:
        """Into these, at its place."""
        lane, place = self._lane(held.lane), held.place
        searched = self._may_search()
        if searched:
            self._asked = False  # what was not tried yet is in hand
        self._half = None
        for part, events in parts:
            one = self._held(part, events, place, held.lane)
            one.blame, one.turns, one.tried = held.blame, held.turns, held.tried
            one.cause = held.cause
            insort(lane.failed, one)
            if searched and self._half is None:
                self._half = one
            place += events

    def drop(self, held: HeldPart[P]) -> None:
        """Its outcome is the caller's alone."""
        self._ended(held)
        self._half = None
        self._forget_lane(held.lane)

    def drop_failed(self) -> list[P]:
        """All that has failed and is not under way, in its order."""
        held: list[HeldPart[P]] = []
        self._half = None
        for lane in [*self._lanes.values()]:
            held += lane.failed
            lane.failed.clear()
            self._forget_lane(lane.number)
        return [one.part for one in sorted(held)]

    def drop_waiting(self) -> list[P]:
        """All that is not under way, in its order."""
        held: list[HeldPart[P]] = []
        self._half = None
        for lane in [*self._lanes.values()]:
            held += [*lane.failed, *lane.fresh]
            lane.failed.clear()
            lane.fresh.clear()
            self._forget_lane(lane.number)
        return [one.part for one in sorted(held)]

    def drop_all(self) -> list[P]:
        """All that has no outcome."""
        under_way = sorted(self._under_way)
        for held in under_way:
            self.drop(held)
        return [*(held.part for held in under_way), *self.drop_waiting()]

    def troubled(self, now: float) -> list[tuple[HeldPart[P], float]]:
        """All that has failed, the oldest first, with the seconds until it may be tried."""
        waiting = [part for lane in self._lanes.values() for part in (*lane.failed, *lane.fresh) if part.failures]
        parts = sorted([*waiting, *(part for part in self._under_way if part.failures)])
        return [
            (part, max(0.0, (max(self._due, part.due) if not self.failing else self._due) - now)) for part in parts
        ]

    # when

    def due(self, now: float) -> float | None:
        """Seconds until `next` may have something, or `ask` is to be called; None: not before an outcome, or
        something new."""
        if len(self._under_way) >= self._slots:
            return None
        if self.failing:
            if self._under_way or (self._asked and not any(lane.failed for lane in self._lanes.values())):
                return None
            return max(0.0, self._due - now) if self._half is None else 0.0
        waits = [part.due for lane in self._lanes.values() if not lane.stands for part in self._next_of(lane)]
        return max(0.0, self._due - now, min(waits) - now) if waits else None

    @property
    def takes_more(self) -> bool:
        """Whether something new could be sent soon."""
        if len(self._under_way) >= self._slots:
            return False
        lanes = (lane for lane in self._lanes.values() if not lane.stands)
        return all(part.failures for lane in lanes for part in self._next_of(lane))

    @property
    def asked(self) -> bool:
        return self._asked

    def ask(self, now: float) -> bool:
        """True: all in hand has failed, perhaps by its own fault, so something new is to be tried. Let the sources
        send, until something comes."""
        if not self.failing or self._asked or self._half is not None or self._under_way or now < self._due:
            return False
        parts = self._all_eligible()
        if any(part.untried for part in parts) or (parts and not min(parts).turns):
            return False
        self._asked = True
        return True

    def answered(self) -> None:
        """It came, and may be sent at once."""
        if self._asked:
            self._asked = False
            self._at_once = True

    # which

    def _first(self, now: float) -> HeldPart[P] | None:
        """While the sink is well."""
        if now < self._due:
            return None
        for lane in self._lanes.values():
            if not lane.stands and (held := self._first_of(lane, now)) is not None:
                self._lanes[lane.number] = self._lanes.pop(lane.number)  # others have their turn
                return held
        return None

    def _first_of(self, lane: _Lane[P], now: float) -> HeldPart[P] | None:
        if not lane.failed:
            return lane.fresh[0] if lane.fresh else None
        parts = [part for part in self._next_of(lane) if part.due <= now]
        failed = [part for part in parts if part.failures]
        # by turns: of a part that was divided, the other half has its turn before the first one is divided again
        return min(failed, key=_tried) if failed else parts[0] if parts else None

    def _next_of(self, lane: _Lane[P]) -> Iterator[HeldPart[P]]:
        """What may be tried again, and the first of what was not tried."""
        for part in self._eligible(lane):
            yield part
            if not part.failures:
                return

    def _probe(self, now: float) -> HeldPart[P] | None:
        """While nothing gets through: one at a time."""
        if self._under_way:
            return None
        parts = self._all_eligible()
        if self._half is not None and self._half in parts:
            return self._half
        fresh = [part for part in parts if not part.failures]
        if fresh and self._at_once:
            self._at_once = False
            return max(fresh)
        if now < self._due or not parts:
            return None
        oldest = min(parts)
        if not oldest.turns:
            return oldest
        self._new_turn = not self._new_turn
        failed = [part for part in parts if part.failures]
        return max(fresh) if fresh and (self._new_turn or not failed) else min(failed, key=_tried)

    def _all_eligible(self) -> list[HeldPart[P]]:
        return [part for lane in self._lanes.values() for part in self._eligible(lane)]

    def _eligible(self, lane: _Lane[P]) -> Iterator[HeldPart[P]]:
        """What has failed; then, of what was not tried, what passes none of those. Of an unordered lane, the first
        and the last."""
        if not lane.ordered:
            yield from lane.failed
            if lane.fresh:
                yield lane.fresh[0]
            if len(lane.fresh) > 1:
                yield lane.fresh[-1]
            return
        before: set[int] = (
            set()
        )  # a part that failed passed none with an equal key, so all that failed may come first
        for part in chain(lane.failed, lane.fresh):
            keys = self._keys(part)
            if before.isdisjoint(keys):
                yield part
            before |= keys

    def _keys(self, held: HeldPart[P]) -> frozenset[int]:
        if held.keys is None:
            held.keys = self._keys_of(held.part)
        return held.keys

    def _may_search(self) -> bool:
        """While nothing gets through: whether a good event is searched for in it, without a wait. If each part has a
        bad event, none passes as a whole."""
        return self.failing and self._searched < SEARCH

    # and how long

    def _grow(self, held: HeldPart[P], now: float, failure: Failure) -> None:
        self._round += 1
        self.rounds.begin(now, failure.wait)
        self.failing = self.failing or self.rounds.row > 1 or failure.wait > 0
        # once is no sign yet; but where there is an order, the others wait behind it
        if self.failing or (self._slots == 1 and held.failures == 1):
            self._due = self.rounds.due

    def _lane(self, number: int) -> _Lane[P]:
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = _Lane(number)
        return lane

    def _held(self, part: P, events: int, place: int, lane: int) -> HeldPart[P]:
        return HeldPart(part, events, place, lane, NO_KEYS if lane == UNORDERED else None)

    def _ended(self, held: HeldPart[P]) -> None:
        del self._under_way[held]
        self._lanes[held.lane].under_way -= 1

    def _forget_lane(self, number: int) -> None:
        lane = self._lanes[number]
        if not (lane.under_way or lane.fresh or lane.failed):
            del self._lanes[number]


def _tried(held: HeldPart[P]) -> int:
    return held.tried
