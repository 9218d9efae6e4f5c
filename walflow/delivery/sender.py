"""Sends events until each has an outcome: the one re-sender, for the lanes of a log, for a buffer in memory, for a broker's consumer.

It sends parts of what its supply has, in order, within the outlet's window. What failed is cut out and sent again, by itself, with what is
known of who has it. Three rules say when (decision 0047):

- *Poison.* A part that failed twice is halved until the bad event is alone. Its neighbours, and newer events, pass it. What failed waits by
  itself, longer each time, takes at most a quarter of the window and every fourth turn, and holds its own bytes alone.
- *Outage.* While a sink fails all that it gets, events are only sent to find out whether it is back: one new and one old part at a
  time, with waits that grow. Once it takes something, all goes on.
- *Attempts.* A failure of a single event counts only if the sink that failed it has taken something else since. So an
  outage uses up no attempts. After `attempts` counted failures the event is rejected.

After a first failure, newer events wait until it was tried again, unless the sink has taken newer ones meanwhile. So at most the events in
flight get out of order.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from walflow.backoff import Backoff
from walflow.contract import FailedEvents, FailedPart, Outlet, Timer
from walflow.delivery.pump import Pump
from walflow.errors import HandedBack, PeerAway
from walflow.event import Block
from walflow.receipt import Delivered, Outcome, Receipt, named, runs

S = TypeVar("S")

BACKOFF: Final = Backoff(0.1, 10.0)  # seconds, after so many failures
ORDERLY: Final = (
    12  # failures, about half a minute: so often newer events wait for what failed because its peer was away
)
SPREAD: Final = 3  # failures from which on neighbours wait for different times
GOLDEN: Final = 0.6180339887498949
SHARE: Final = 4  # the part of the window, and of the turns, that may be for what has failed: a quarter
OUTAGE: Final = 3  # rounds of failures without anything taken from which on events are only sent as probes; two are a block's and its half's


class SendLimits(NamedTuple):
    """`events`: how many may be sent and not settled; None: no limit but the outlet's window. `attempts`: how many counted failures a
    single event may have before it is rejected; None: no limit. `turn`: bytes that may be sent in one turn of the loop, because
    others wait; None: no limit."""

    events: int | None = None
    attempts: int | None = None
    turn: int | None = None


@dataclass(slots=True, eq=False)
class InFlight(Generic[S]):
    """Positions `first` to `last` of a source of events."""

    first: int
    last: int
    source: S
    size: int = 0  # bytes, once it was sent
    delivered: Delivered | None = None  # who has which of them
    failures: int = 0  # in a row, of these events in a block of this size
    tries: int = 0  # failures, whatever they count for
    attempts: int = 0  # failures that count, as a single event
    proven: bool = False  # its sink has taken others while it failed: it is not, or not only, an outage
    halved: bool = False
    untried: bool = False  # since it was cut out of a larger part
    holds: bool = False  # newer events wait until it was tried again; what failed once, or because its peer was away
    since: int = 0  # by the sender's count of outcomes: what was taken later makes the next failure count
    due: float = 0.0
    sink: str = ""  # that failed it last
    cause: str = ""
    verdict: str = ""  # why it is rejected and not sent

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def cut(self, count: int) -> "tuple[InFlight[S], InFlight[S]]":
        """Of what was not sent yet: its first `count` events (fewer than it has), and the rest."""
        middle = self.first + count
        return InFlight(self.first, middle - 1, self.source), InFlight(middle, self.last, self.source)


Entry = tuple[float, int, InFlight[S]]  # due, or 0 of what goes in its order; first; part


class Supply(Protocol[S]):
    """Whose events are sent."""

    def fill(self) -> bool:
        """Adds parts to `Sender.ready` if it has none. False: there is nothing to send now."""
        ...

    def block(self, part: InFlight[S], receipt: Receipt) -> Block | None:
        """`part.size` is set. None: these events are not sent, and the supply has said why; the receipt is withdrawn."""
        ...

    def cut(self, part: InFlight[S], first: int, last: int) -> S:
        """A source with these events of the part alone, so that the rest of what they came with need not be kept."""
        ...

    def sent(self, part: InFlight[S]) -> None:
        """It is about to be sent, or rejected."""
        ...

    def returned(self, part: InFlight[S]) -> None:
        """It has an outcome, whichever; or it was not sent after all."""
        ...

    def acked(self, part: InFlight[S], first: int, last: int) -> None:
        """They are settled: delivered, or rejected and their error records delivered."""
        ...

    def failed(self, part: InFlight[S], first: int, last: int) -> None:
        """They will be sent again. Called before `cut`."""
        ...

    def given_up(self, part: InFlight[S]) -> None:
        """It is rejected."""
        ...

    def place(self, part: InFlight[S]) -> str:
        """Where the event came from, for the reason in its error record; "" if nothing is known."""
        ...


@dataclass(slots=True)
class _Probes:
    """How often parts of one kind, new or old, may be sent while everything fails."""

    level: int = 0  # rounds of failures
    round_ends: float = 0.0
    until: float = 0.0  # the next one is sent

    @property
    def only(self) -> bool:
        return self.level >= OUTAGE


class Sender(Generic[S]):
    """`ready`: the next parts, in order. Positions only grow. The owner gives `pump` to `Outlet.on_ready`."""

    def __init__(self, supply: Supply[S], out: Outlet, limits: SendLimits) -> None:
        self.ready: deque[InFlight[S]] = deque()
        self._supply = supply
        self._out = out
        self._limits = limits
        self._scheduler = out.scheduler
        self._firsts: list[Entry[S]] = []  # a heap, by position: what newer events wait for
        self._failed: list[Entry[S]] = []  # a heap: what else failed
        self._failed_bytes = 0  # of what waits
        self._sent = 0  # events, and not settled
        self._again_events = self._again_bytes = 0  # of these, those that had failed
        self._again_parts: dict[InFlight[S], None] = {}
        self._turns = 0  # new parts that are due before the next old one
        self._dropped = 0  # all events up to this position are gone
        self._count = 1  # of outcomes
        self._taken: dict[str, int] = {}  # when each sink has taken something last
        self._highest: dict[str, int] = {}  # position that each sink has taken
        self._failing: set[str] = set()  # sinks that have taken nothing since they failed
        self._new = _Probes()
        self._old = _Probes()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._stopped = False
        self._pump = Pump(out.scheduler, self._send_ready)
        out.retries(self.failed)

    def __repr__(self) -> str:
        failed = len(self._failed) + len(self._firsts)
        return f"<Sender {len(self.ready)} ready, {self._sent} events sent, {failed} parts failed>"

    @property
    def sent(self) -> int:
        """Events that were sent and are not settled."""
        return self._sent

    def failed(self, most: int) -> FailedEvents:
        """What has failed and waits, or is tried again now; the oldest parts, so many at the most."""
        now = self._scheduler.time()
        parts = [*self._again_parts, *(part for _, _, part in chain(self._firsts, self._failed))]
        oldest = heapq.nsmallest(most, parts, key=lambda part: part.first)
        return FailedEvents(
            sum(part.count for part in parts),
            [
                FailedPart(
                    part.first,
                    part.count,
                    part.sink,
                    part.tries,
                    part.attempts,
                    self._seconds_to(part, now),
                    part.verdict or part.cause,
                )
                for part in oldest
            ],
        )

    def _seconds_to(self, part: InFlight[S], now: float) -> float:
        if part in self._again_parts:
            return 0.0
        return max(0.0, (max(part.due, self._old.until) if self._old.only else part.due) - now)

    def waits_for(self) -> str:
        """What it waits for if only a timer will let it send; "": for something else, or nothing."""
        if self._sent or self._timer is None:
            return ""
        seconds = max(0.0, self._timer_at - self._scheduler.time())
        _, _, part = min(chain(self._firsts, self._failed), default=(0.0, 0, None), key=lambda one: one[1])
        why = f": {part.sink}: {part.cause}" if part is not None else ""
        return f"the next try, in {seconds:.0f} s{why}"

    def pump(self) -> None:
        """Sends what may be sent."""
        self._pump.now()

    def soon(self) -> None:
        self._pump.soon()

    def stop(self) -> None:
        """Sends no more. What is in flight may still settle."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self, last: int) -> None:
        """All events up to that position are gone. A sink may still settle some of them; that has no effect."""
        self._dropped = last
        for heap in (self._firsts, self._failed):
            self._failed_bytes -= sum(part.size for _, _, part in heap if part.last <= last)
            heap[:] = [one for one in heap if one[2].last > last]
            heapq.heapify(heap)

    # what goes

    def _send_ready(self) -> None:
        turn, size = self._limits.turn, 0
        now = self._scheduler.time()  # once: what is due a moment later needs the timer
        while not self._stopped:
            if turn is not None and size >= turn:
                self._pump.later()
                break
            part = self._next(now)
            if part is None or not self._send(part):
                break
            size += part.size
        self._arm(now)

    def _next(self, now: float) -> InFlight[S] | None:
        """Taken off its queue. None: nothing may be sent now."""
        most = self._limits.events
        if most is not None and self._sent >= most:
            return None
        if not self._failed and not self._firsts:
            return self._next_new(now)
        if self._old.only:
            if now < self._old.until:
                return None if self._firsts else self._next_new(now)
            entry = self._firsts[0] if self._firsts else min(self._failed, key=_probed_first)
            if not self._fits(entry[2]):
                return None
            self._old.until = now + BACKOFF.after(self._old.level)
            return self._unlisted(entry)
        if self._firsts and self._firsts[0][2].due <= now:
            return self._unlisted(self._firsts[0]) if self._fits(self._firsts[0][2]) else None
        if self._failed and self._failed[0][0] <= now and self._may_go_again(self._failed[0][2], now):
            if not self._fits(self._failed[0][2]):
                return None
            self._turns = SHARE - 1 if self._failed[0][2].proven else 0
            return self._unlisted(self._failed[0])
        return None if self._firsts else self._next_new(now)

    def _fits(self, part: InFlight[S]) -> bool:
        """Otherwise it waits until more is settled, and no new part takes its place."""
        most = self._limits.events
        return most is None or not self._sent or self._sent + part.count <= most

    def _may_go_again(self, part: InFlight[S], now: float) -> bool:
        """What failed because the sink was away goes before what is newer, in its order."""
        if not part.proven:
            return True
        if self._turns > 0 and not self._firsts and self._has_new(now):
            return False
        if not self._again_events:
            return True
        most = self._limits.events
        fits = self._again_bytes + part.size <= self._out.window // SHARE
        return fits and (most is None or self._again_events + part.count <= most // SHARE)

    def _has_new(self, now: float) -> bool:
        return self._may_be_new(now) and (bool(self.ready) or self._supply.fill())

    def _may_be_new(self, now: float) -> bool:
        if self._failed_bytes > self._out.window:
            return False
        return not self._new.only or now >= self._new.until

    def _next_new(self, now: float) -> InFlight[S] | None:
        if not self._has_new(now):
            return None
        if self._new.only:
            self._new.until = now + BACKOFF.after(self._new.level)
        if self._turns:
            self._turns -= 1
        part = self.ready.popleft()
        most = self._limits.events
        if most is not None and self._sent + part.count > most:
            part, rest = part.cut(most - self._sent)
            self.ready.appendleft(rest)
        return part

    def _send(self, part: InFlight[S]) -> bool:
        """False: not now. The part has left its queue, because it may settle (and fail) while it is being sent."""
        receipt = Receipt(self._settled, part.count, part, part.delivered)
        block = self._supply.block(part, receipt) if part.last > self._dropped else None
        if block is None:
            receipt.withdraw()
            return True
        if not part.failures:
            part.since = self._count
        self._now_sent(part, 1)
        self._supply.sent(part)
        if part.verdict or self._is_given_up(part):
            self._reject(part, block)
            return True
        if self._out.send(block):
            return True
        self._now_sent(part, -1)
        self._supply.returned(part)
        receipt.withdraw()
        if part.failures:
            self._list(part)
        else:
            self.ready.appendleft(part)
        return False

    def _now_sent(self, part: InFlight[S], sign: int) -> None:
        self._sent += sign * part.count
        if part.failures:
            self._again_events += sign * part.count
            self._again_bytes += sign * part.size
            if sign > 0:
                self._again_parts[part] = None
            else:
                self._again_parts.pop(part, None)

    def _is_given_up(self, part: InFlight[S]) -> bool:
        """Not while a sink has rejected it and the error record is not delivered: it has its outcome there."""
        attempts = self._limits.attempts
        rejected = part.delivered is not None and part.delivered.refused
        return attempts is not None and part.count == 1 and part.attempts >= attempts and not rejected

    def _reject(self, part: InFlight[S], block: Block) -> None:
        if part.verdict:
            self._out.reject(block, part.verdict)
            return
        place = self._supply.place(part)
        times = "once" if part.attempts == 1 else f"{part.attempts} times"
        at = f" at {part.sink}" if part.sink else ""
        part.verdict = f"failed {times}{at}: {part.cause}{f' ({place})' if place else ''}"
        self._supply.given_up(part)
        told: Mapping[str, object] = {
            "sink": part.sink,
            "position": part.first,
            "attempts": part.attempts,
            "cause": part.cause,
        }
        self._out.reject(block, part.verdict, told)

    # what becomes of it

    def _settled(self, receipt: Receipt) -> None:
        part: InFlight[S] = receipt.ref  # type: ignore[assignment]  # it is what we gave it
        self._now_sent(part, -1)
        self._count += 1
        if receipt.cause is None:
            self._note_taken(receipt.takers(), part.last)
            if part.last > self._dropped:
                self._supply.acked(part, part.first, part.last)
        elif part.last > self._dropped:
            self._account(part, receipt.cause, receipt)
        self._supply.returned(part)
        self._pump.soon()

    def _account(self, part: InFlight[S], cause: BaseException, receipt: Receipt) -> None:
        outcome = receipt.outcome()
        found = list(runs(outcome.failed, part.count))
        delivered = [stop for _, stop, failed in found if not failed]
        taken = receipt.takers()
        if taken:
            self._note_taken(taken, part.first + delivered[-1] - 1 if delivered else 0)
        for start, stop, failed in found:
            if not failed:
                self._supply.acked(part, part.first + start, part.first + stop - 1)
        for start, stop, failed in found:
            if failed:
                self._again(part, outcome, start, stop, cause)

    def _note_taken(self, names: AbstractSet[str], highest: int) -> None:
        for name in names:
            self._taken[name] = self._count
            if highest > self._highest.get(name, 0):
                self._highest[name] = highest
        if self._failing and not self._failing.isdisjoint(names):
            self._failing -= names
            if not self._failing:
                self._recovered()

    def _recovered(self) -> None:
        """A sink that failed everything takes events again: what waited because of it is due, but for what has failed while the sink
        took others."""
        outage = self._old.only or self._new.only
        self._old, self._new = _Probes(), _Probes()
        if outage:
            now = self._scheduler.time()
            for heap in (self._firsts, self._failed):
                for _, _, part in heap:
                    if not part.attempts:
                        part.due = now
                heap[:] = [(part.due if heap is self._failed else 0.0, first, part) for _, first, part in heap]
                heapq.heapify(heap)

    def _again(self, part: InFlight[S], outcome: Outcome, start: int, stop: int, cause: BaseException) -> None:
        """Events `start` to `stop` of the part have failed."""
        sinks = outcome.failing(start, stop)
        counts = any(self._taken.get(sink, 0) > part.since for sink in sinks) if sinks else self._count > part.since
        passed = any(self._highest.get(sink, 0) >= part.first + stop for sink in sinks)
        self._note_failing(part, sinks)
        first, last = part.first + start, part.first + stop - 1
        self._supply.failed(part, first, last)
        count = stop - start
        halves = count > 1 and (part.halved or part.failures > 0)
        middle = start + (count >> 1)
        failures = 1 if halves and counts else part.failures + 1
        for begin, end in [(start, middle), (middle, stop)] if halves else [(start, stop)]:
            low, high = part.first + begin, part.first + end - 1
            again = InFlight(
                low,
                high,
                self._supply.cut(part, low, high),
                size=part.size * (end - begin) // part.count,
                delivered=outcome.between(begin, end),
                failures=failures,
                tries=part.tries + 1,
                attempts=part.attempts + (counts and part.count == 1 and not part.verdict),
                proven=part.proven or counts,
                halved=part.halved or halves,
                untried=halves,
                holds=not passed and part.failures < _patience(cause),
                since=self._count if counts else part.since,
                due=self._scheduler.time() + _wait(low, failures),
                sink=" and ".join(sorted(named(sinks))),
                cause=str(cause),
                verdict=part.verdict,
            )
            self._list(again)
        self._out.log.warning(
            "redelivery",
            position=first,
            events=count,
            attempts=part.tries + 1,
            sink=" and ".join(sorted(named(sinks))),
            cause=str(cause),
        )

    def _note_failing(self, part: InFlight[S], sinks: set[str]) -> None:
        """A round of failures lasts as long as its wait: what fails meanwhile is the same trouble."""
        if any(self._taken.get(sink, 0) == self._count for sink in sinks):
            return  # it has taken other events of this very block
        self._failing |= sinks
        probes = self._old if part.failures else self._new
        now = self._scheduler.time()
        if now >= probes.round_ends:
            probes.level += 1
            probes.round_ends = probes.until = now + BACKOFF.after(probes.level)
            if probes.only:
                self._out.waits()

    # what waits

    def _list(self, part: InFlight[S]) -> None:
        if part.holds:
            heapq.heappush(self._firsts, (0.0, part.first, part))
        else:
            heapq.heappush(self._failed, (part.due, part.first, part))
        self._failed_bytes += part.size

    def _unlisted(self, entry: Entry[S]) -> InFlight[S]:
        heap = self._firsts if entry[2].holds else self._failed
        if entry is heap[0]:
            heapq.heappop(heap)
        else:
            heap.remove(entry)
            heapq.heapify(heap)
        self._failed_bytes -= entry[2].size
        return entry[2]

    def _arm(self, now: float) -> None:
        """One timer, for what is due next."""
        waits = bool(self._failed or self._firsts)
        if not waits and not self._new.only and not self._timer_at:
            return
        times: list[float] = []
        if waits and self._old.only:
            times.append(self._old.until)
        elif waits:
            times += [heap[0][2].due for heap in (self._firsts, self._failed) if heap]
        if self._new.only:
            times.append(self._new.until)
        at = min((one for one in times if one > now), default=0.0)
        if self._stopped or at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at:
            self._timer = self._scheduler.call_later(at - now, self._due)

    def _due(self) -> None:
        self._timer = None
        self._timer_at = 0.0
        self.pump()


def _wait(position: int, failures: int) -> float:
    """What has failed often has waits of different lengths: else two events that are sent together fail together each time, if
    one of them ends the connection. Multiples of the golden ratio are spread evenly, however many there are."""
    wait = BACKOFF.after(failures)
    return wait if failures < SPREAD else wait * (1 - position * GOLDEN % 1 / 2)


def _patience(cause: BaseException) -> int:
    """So many failures newer events wait for: for the second try of each; for what a peer that is away gets in its order."""
    if isinstance(cause, PeerAway):
        return ORDERLY
    return 0 if isinstance(cause, HandedBack) else 1


def _probed_first(entry: Entry[S]) -> tuple[bool, int, int, int]:
    """While everything fails, halves of what failed are tried before it is another part's turn: if each block has a bad event, an event
    that the sink takes is found soon. Otherwise all get their turn."""
    part = entry[2]
    return (not part.untried, part.failures, part.count, part.first)
