"""What a sink tries next, by the rule of decision 0047: against a peer that is told, in virtual time."""

import heapq
import math
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import given, strategies as st

from walflow.backoff import Backoff
from walflow.net import Failure, FailureVerdict, HeldPart, RetryQueue

Part = tuple[int, ...]
BLAMED = Failure(2, counts=True)
BUSY = Failure(12, counts=False)
UNSENT = Failure(math.inf, counts=False)
ANSWER = 0.01  # seconds


class World:
    """A queue, its peer and its source. `refuses`: what an answer to these events at this moment is; None: they are
    taken. Parts of `source` come one after the other, while the breaker lets them."""

    def __init__(
        self,
        refuses: Callable[[float, Part], Failure | None],
        *,
        slots: int = 1,
        attempts: int = 3,
        lanes: int = 0,
        keys: int = 0,
    ) -> None:
        self.queue = RetryQueue[Part](
            slots, attempts, Backoff(0.1, 10.0), keys_of=lambda part: frozenset(event % keys for event in part)
        )
        self.refuses = refuses
        self.lanes = lanes
        self.now = 0.0
        self.source: list[Part] = []
        self.taken: list[int] = []
        self.given_up: list[int] = []
        self.sent: list[tuple[float, Part]] = []
        self._numbers = count()
        self._answers: list[tuple[float, int, HeldPart[Part]]] = []

    def add(self, *parts: Part) -> None:
        for part in parts:
            self.queue.answered()
            self.queue.add([(part, len(part))], *([part[0] % self.lanes] if self.lanes else []))

    def run(self, seconds: float = 3600.0, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        idle = 0
        while self.now < end and not until():
            sent = len(self.sent)
            self._send()
            idle = 0 if self._answers or len(self.sent) > sent else idle + 1
            assert idle < 20, f"it is due, and there is nothing to do: {self.queue}"
            due = self.queue.due(self.now)
            answer = self._answers[0][0] if self._answers else math.inf
            then = min(answer, self.now + due if due is not None else math.inf, end)
            if then == math.inf or (then == end and not self._answers and due is None):
                return
            self.now = then if then > self.now else math.nextafter(self.now, math.inf)
            while self._answers and self._answers[0][0] <= self.now:
                self._answered(heapq.heappop(self._answers)[2])

    def _send(self) -> None:
        self.queue.ask(self.now)
        self._come()
        while (held := self.queue.next(self.now)) is not None:
            self.sent.append((self.now, held.part))
            heapq.heappush(self._answers, (self.now + ANSWER, next(self._numbers), held))
            self._come()

    def _come(self) -> None:
        """As the sources send while the breaker is not triggered, or half open."""
        if self.source and self.queue.takes_more and (self.queue.asked or not self.queue.failing):
            self.add(self.source.pop(0))

    def _answered(self, held: HeldPart[Part]) -> None:
        failure = self.refuses(self.now, held.part)
        if failure is None:
            self.queue.passed(held)
            self.taken += held.part
            return
        verdict = self.queue.failed(held, self.now, failure)
        if verdict is FailureVerdict.DIVIDED:
            half = len(held.part) // 2
            self.queue.divide(held, [(half_, len(half_)) for half_ in (held.part[:half], held.part[half:])])
        elif verdict is FailureVerdict.GIVEN_UP:
            self.given_up += held.part


def poison(*events: int, failure: Failure = BLAMED) -> Callable[[float, Part], Failure | None]:
    return lambda _now, part: failure if set(part) & {*events} else None


def away(until: float, failure: Failure = BLAMED) -> Callable[[float, Part], Failure | None]:
    return lambda now, _part: failure if now < until else None


def parts_of(events: int, size: int, first: int = 0) -> list[Part]:
    return [tuple(range(at, min(at + size, first + events))) for at in range(first, first + events, size)]


def test_the_poison_of_a_batch_is_given_up_alone_and_its_neighbours_pass_at_once() -> None:
    world = World(poison(0))
    world.add(*parts_of(501, 100))
    world.run(until=lambda: len(world.taken) == 500)
    assert world.now < 5
    for event in range(501, 504):  # between two of them it fails once more
        world.add((event,))
        world.run(11)
    assert world.given_up == [0]
    assert sorted(world.taken) == list(range(1, 504))


def test_a_batch_that_is_the_only_traffic_is_divided_at_growing_waits() -> None:
    world = World(poison(37))
    world.add(*parts_of(100, 100))
    world.run(until=lambda: len(world.taken) == 99)
    assert world.now < 30
    assert world.given_up == []  # its attempts count where something else gets through, and nothing does now


def test_poison_alone_is_tried_at_growing_waits_and_nothing_counts_until_something_else_passes() -> None:
    world = World(poison(1))
    world.add((1,))
    world.run(600)
    assert len(world.sent) < 80
    assert max(b - a for (a, _), (b, _) in zip(world.sent, world.sent[1:], strict=False)) == pytest.approx(
        10, abs=0.1
    )
    assert world.given_up == []
    for event in (2, 3, 4):
        assert world.queue.asked or not world.queue.failing
        world.add((event,))
        world.run(10.5)
        assert event in world.taken
    world.add((5,))
    world.run(11)
    assert world.given_up == [1]


def test_an_outage_counts_nothing_and_asks_rarely() -> None:
    world = World(away(20))
    world.add(*parts_of(2000, 100))
    world.source = parts_of(1000, 100, 2000)
    world.run()
    assert len([at for at, _ in world.sent if at < 20]) < 34  # with two searches of seven halves
    assert world.given_up == []
    assert sorted(world.taken) == list(range(3000))
    assert sum(len(part) == 100 for at, part in world.sent if at > 20) >= 18  # what came later is whole
    assert world.now < 35


def test_where_each_batch_has_a_bad_event_the_good_ones_are_searched_for_without_a_wait() -> None:
    world = World(lambda _, part: BLAMED if any(event % 100 == 37 for event in part) else None)
    world.add(*parts_of(3000, 100))
    world.run(until=lambda: len(world.taken) >= 2900)
    assert world.now < 20, "28 s and more if each try of a half waits"
    world.run(60)
    assert sorted(world.taken) == [event for event in range(3000) if event % 100 != 37]


def test_the_waits_of_an_outage_grow_also_with_many_requests_under_way() -> None:
    world = World(away(20), slots=16)
    world.add(*parts_of(100, 1))
    world.run()
    assert len([at for at, _ in world.sent if at < 20]) < 16 + 16 + 20
    assert sorted(world.taken) == list(range(100))
    assert world.given_up == []


@pytest.mark.parametrize("failure", [BUSY, UNSENT])
def test_a_server_that_says_so_itself_gets_all_in_order(failure: Failure) -> None:
    world = World(away(15, failure))
    world.add(*parts_of(10, 1))
    world.run()
    assert world.taken == list(range(10))


def test_one_that_it_is_never_ready_for_stops_no_other_and_is_not_given_up() -> None:
    world = World(poison(0, failure=BUSY))
    world.add(*parts_of(100, 1))
    world.run(100)
    assert sorted(world.taken) == list(range(1, 100))
    assert world.given_up == []


def test_once_is_no_sign_and_the_others_wait_behind_it() -> None:
    failing = [BLAMED, None]
    world = World(lambda _now, _part: failing.pop(0) if failing else None)
    world.add((1,), (2,), (3,))
    world.run()
    assert world.taken == [1, 2, 3]


def test_many_poisons_in_front_do_not_starve_what_is_behind_them() -> None:
    bad = range(40)
    world = World(poison(*bad))
    world.add(*parts_of(3000, 1))
    world.run(until=lambda: len(world.taken) == 2960)
    assert world.now < 90  # 30 of it the peer takes to answer
    assert sorted(world.given_up) == [*bad]


def test_an_equal_key_is_never_overtaken_and_others_pass() -> None:
    world = World(poison(3), slots=4, lanes=4, keys=8)
    world.add(*parts_of(64, 1))
    world.run(until=lambda: len(world.taken) == 56)  # also those of the same lane
    assert not [event for event in world.taken if event % 8 == 3]  # they wait behind it
    for event in (64, 65, 66):
        world.add((event,))
        world.run(11)
    assert world.given_up == [3]
    assert [event for event in world.taken if event % 8 == 3] == list(range(11, 64, 8))


def test_a_limit_of_failures_ends_it_also_in_an_outage() -> None:
    world = World(away(math.inf))
    world.queue = RetryQueue[Part](1, 3, Backoff(0.1, 10.0), most=4)
    world.add((1,))
    world.run(60)
    assert len(world.sent) == 5
    assert world.given_up == [1]
    assert world.queue.asked  # the next one shows whether it is well


events = st.integers(0, 59)


@given(
    bad=st.sets(events, max_size=6),
    size=st.integers(1, 20),
    slots=st.integers(1, 5),
    ordered=st.booleans(),
    outages=st.lists(
        st.tuples(st.floats(0, 60), st.floats(0, 30), st.sampled_from([BLAMED, BUSY, UNSENT])), max_size=4
    ),
)
def test_whatever_fails_each_event_has_one_outcome_and_the_good_are_taken(
    bad: set[int],
    size: int,
    slots: int,
    ordered: bool,
    outages: Sequence[tuple[float, float, Failure]],
) -> None:
    def refuses(now: float, part: Part) -> Failure | None:
        for begin, seconds, failure in outages:
            if begin <= now < begin + seconds:
                return failure
        return BLAMED if set(part) & bad else None

    lanes = slots if ordered else 0
    world = World(refuses, slots=slots, lanes=lanes, keys=6)
    grouped = {
        lane: [event for event in range(60) if not lanes or event % 6 % lanes == lane] for lane in range(lanes or 1)
    }
    parts = [
        (lane, tuple(events[at : at + size]))
        for lane, events in grouped.items()
        for at in range(0, len(events), size)
    ]
    for lane, part in parts:
        world.queue.add([(part, len(part))], *([lane] if lanes else []))
    world.run(3600)
    good = set(range(60)) - bad
    if ordered:
        for key in range(6):  # what is behind a poison of its key waits until that is given up
            mine = [event for event in world.taken if event % 6 == key]
            assert mine == sorted(mine)
    else:
        assert sorted(world.taken) == sorted(good)
    rest = [event for part in world.queue.drop_all() for event in part]
    assert sorted([*world.taken, *world.given_up, *rest]) == list(range(60))
    assert set(world.given_up) <= bad
    assert ordered or set(rest) <= bad
