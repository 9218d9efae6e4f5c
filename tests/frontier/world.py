"""A receiver, directories of a log and their copies, and writers that die: every step of `walflow.frontier`, with
nothing of a database.

An event is a number. The same number in two directories is the same event: one was copied from the other."""

from collections import Counter
from collections.abc import Generator, Sequence
from copy import deepcopy
from typing import NamedTuple

import msgspec

from walflow.frontier import (
    Begin,
    Confirmed,
    Frontier,
    FrontierBatch,
    FrontierTaken,
    Keep,
    LogView,
    LogWentBack,
    OtherWriter,
    Put,
    ReadFrontier,
    ReceiverWentBack,
    Rest,
    Step,
    Take,
    WriterKeys,
    after_lost_token,
    opening,
)
from walflow.positions import Range


class Transaction(NamedTuple):
    """Rows and what asserts and moves the frontier. It holds the row of the frontier until it lands or dies."""

    token: str
    confirmed: Confirmed
    batch: FrontierBatch
    events: Sequence[int]


class Receiver:
    """`late`: a COMMIT whose client has gone. Whoever writes the frontier waits for it; who reads does not."""

    def __init__(self) -> None:
        self.frontier: Frontier | None = None
        self.rows: Counter[int] = Counter()
        self.late: Transaction | None = None

    def land(self, transaction: Transaction) -> bool:
        """False: the token is another's, or the receiver went back, and nothing is stored."""
        if self.frontier is None or self.frontier.token != transaction.token:
            return False
        if self.frontier.lacks(transaction.confirmed):
            return False
        self.rows.update(transaction.events)
        self.frontier = self.frontier.with_batch(transaction.batch)
        return True

    def resolve(self, *, lands: bool) -> None:
        late, self.late = self.late, None
        if late is not None and lands:
            self.land(late)

    def begin(self, frontier: Frontier) -> Frontier:
        if self.frontier is None:
            self.frontier = frontier
        return self.frontier

    def take(self, step: Take) -> Frontier | None:
        found = self.frontier
        if found is None or found.token not in step.tokens:
            return None
        self.frontier = msgspec.structs.replace(found, token=step.token, epoch=found.epoch + 1, beat=found.beat + 1)
        return self.frontier

    def put(self, frontier: Frontier) -> Frontier | None:
        if self.frontier is None or self.frontier.token != frontier.token:
            return None
        self.frontier = frontier
        return frontier

    def renew(self, token: str) -> Frontier | None:
        if self.frontier is None or self.frontier.token != token:
            return None
        self.frontier = msgspec.structs.replace(self.frontier, beat=self.frontier.beat + 1)
        return self.frontier


class Place(NamedTuple):
    event: int
    term: int


class LogDirectory:
    """`places`: by position. `acked`: positions that the log will not send again."""

    def __init__(self, term: int, *, relaxed: bool = False) -> None:
        self.relaxed = relaxed
        self.places: dict[int, Place] = {}
        self.next = 1
        self.term = term
        self.acked: set[int] = set()
        self.keys = WriterKeys()

    def append(self, event: int) -> None:
        self.places[self.next] = Place(event, self.term)
        self.next += 1

    def view(self) -> LogView:
        spans: dict[int, Range] = {}
        for position, place in self.places.items():
            first, _ = spans.get(place.term, (position, position))
            spans[place.term] = (first, position)
        return LogView(self.next, self.low, spans, self.relaxed)

    @property
    def low(self) -> int:
        return next((position - 1 for position in self.places if position not in self.acked), self.next - 1)

    def lose(self, events: int) -> None:
        self.next = max(1, self.next - events)
        self.places = {position: place for position, place in self.places.items() if position < self.next}
        self.acked = {position for position in self.acked if position < self.next}

    def unacked(self) -> list[int]:
        return [position for position in self.places if position not in self.acked]

    def copied(self, term: int) -> "LogDirectory":
        """As a copy of the files is, opened: what comes next is in a chunk of its own."""
        other = deepcopy(self)
        other.term = term
        return other


Opening = Generator[Step, Frontier | None, FrontierTaken | LogWentBack | ReceiverWentBack | OtherWriter]


class Writer:
    """A process on a directory. `run` makes one step; `taken` once it writes; `end` once it was refused."""

    def __init__(self, directory: LogDirectory, receiver: Receiver, world: "World") -> None:
        self.directory = directory
        self.taken: FrontierTaken | None = None
        self.end: LogWentBack | ReceiverWentBack | OtherWriter | None = None
        self.unsure: bool = False  # a COMMIT had no answer
        self._receiver = receiver
        self._world = world
        self._opening: Opening = opening(directory.keys, directory.view(), lambda: world.time)
        self.step: Step | None = next(self._opening)

    def advance(self) -> None:
        """The step that it is at, and its answer."""
        step = self.step
        assert step is not None
        answer: Frontier | None = None
        match step:
            case ReadFrontier():
                answer = self._receiver.frontier
            case Keep(keys):
                self.directory.keys = keys
            case Put(frontier):
                answer = self._receiver.put(frontier)
            case Begin(frontier):
                answer = self._receiver.begin(frontier)
            case Take():
                self._world.waits_for_late()
                answer = self._receiver.take(step)
            case Rest(seconds):
                self._world.time += seconds
        try:
            self.step = self._opening.send(answer)
        except StopIteration as stop:
            self.step = None
            if isinstance(stop.value, FrontierTaken):
                self.taken = stop.value
            else:
                self.end = stop.value

    def read_again(self) -> None:
        """After a COMMIT without an answer, or as a sign of life."""
        assert self.taken is not None
        self._world.waits_for_late()
        found = self._receiver.renew(self.taken.keys.newest)
        self.unsure = False
        if found is None:
            self.end = after_lost_token(self._receiver.frontier, self.taken.keys)
            self.taken = None
        elif found.highest < self.taken.frontier.highest:
            self.end = ReceiverWentBack(found.highest, self.taken.frontier.highest)
            self.taken = None
        else:
            self.taken = self.taken._replace(frontier=found)

    def parts(self, positions: Sequence[int]) -> tuple[list[int], Transaction | None]:
        """Of unacked positions of one term, in a row: those that the receiver has,
        and the commit of the first ones that it has not."""
        assert self.taken is not None
        term = self.directory.places[positions[0]].term
        known: list[int] = []
        for first, last, has in self.taken.frontier.has(term, positions[0], positions[-1]):
            if has:
                known += range(first, last + 1)
                continue
            low = self.directory.low
            batch = FrontierBatch(term, first, last, settled=low, acked_below=low + 1)
            events = [self.directory.places[position].event for position in range(first, last + 1)]
            return known, Transaction(self.taken.keys.newest, self.taken.keys.confirmed, batch, events)
        return known, None


class World:
    def __init__(self) -> None:
        self.time = 0.0
        self.receiver = Receiver()
        self.lands = True  # what a late COMMIT does that someone waits for
        self._terms = 0
        self._events = 0

    def waits_for_late(self) -> None:
        self.receiver.resolve(lands=self.lands)

    def term(self) -> int:
        self._terms += 1
        return self._terms

    def event(self) -> int:
        self._events += 1
        return self._events
