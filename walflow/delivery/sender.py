"""Sends events until each has an outcome: the one re-sender, for the lanes of a log, for a buffer in memory, for a
broker's consumer.

It sends parts of what its supply has, in order, within the outlet's window. What failed is cut out and sent again, by
itself, with what is known of who has it. Three rules say when (decision 0047):

- *Poison.* A part that failed twice is halved until the bad event is alone. Its neighbours, and newer events, pass
  it. What failed waits by itself, longer each time, takes at most a quarter of the window and every fourth turn, and
  holds its own bytes alone.
- *Outage.* While a sink fails all that it gets, events are only sent to find out whether it is back: one new and one
  old part at a time, with waits that grow. Once it takes something, all goes on.
- *Attempts.* A failure of a single event counts only if the sink that failed it has taken something else since the
  failure before, or, after half a minute, if newer ones wait for the room that only such events hold; and if the
  event may be its cause: `Blameless` never counts, `OneOfMany` only if nothing else was under way. So an outage uses
  up no attempts. After `attempts` counted failures the event is rejected.

What failed waits in `FailedParts`; what each sink has taken stands in `SinkRecord`.

After a first failure, newer events wait until it was tried again, unless the sink has taken newer ones meanwhile. So
at most the events in flight get out of order.
"""

from collections import deque
from typing import Final, Generic, TypeVar

from walflow.contract import FailedEvents, FailedPart, Outlet, Timer
from walflow.delivery.failed_parts import FailedParts
from walflow.delivery.in_flight import InFlight, SendLimits, Supply
from walflow.delivery.pump import Pump
from walflow.delivery.sink_record import BACKOFF, SinkRecord
from walflow.errors import Blameless, HandedBack, OneOfMany, PeerAway
from walflow.receipt import AGAIN, Delivered, Receipt, named, runs

S = TypeVar("S")

ORDERLY: Final = 12  # failures, about half a minute: so often newer events wait for what failed as its peer was away
# Seconds since an event failed first, before it may be given up though nothing else comes. And the most seconds for
# which newer events wait, so that one goes alone.
HOLDS_UP: Final = 30.0
FEW: Final = 16  # parts that failed: newer ones go on beside so many, also if these are larger than the window
SPREAD: Final = 3  # failures from which on neighbours wait for different times
GOLDEN: Final = 0.6180339887498949
# What is sent in one turn of the loop: scripts and sinks work on it at once, and other work waits meanwhile.
TURN_BYTES: Final = 1 << 20
TURN_EVENTS: Final = 8192
BLOCK: Final = 16  # events that take as long as a block takes beside its own
SHARE: Final = 4  # the part of the window, and of the turns, that may be for what has failed: a quarter


class Sender(Generic[S]):
    """`ready`: the next parts, in order. Positions only grow. The owner gives `pump` to `Outlet.on_ready`."""

    def __init__(self, supply: Supply[S], out: Outlet, limits: SendLimits) -> None:
        self.ready: deque[InFlight[S]] = deque()
        self._supply = supply
        self._out = out
        self._limits = limits
        self._scheduler = out.scheduler
        self._waiting = FailedParts[S]()
        self._record = SinkRecord()
        self._sent = 0  # events, and not settled
        self._again_events = self._again_bytes = 0  # of these, those that had failed
        self._again_parts: dict[InFlight[S], None] = {}
        self._again_shared = 0  # parts of these
        self._probed_old = False  # by the last probe: a sink that lets one block come must get a new one too
        self._turns = 0  # new parts that are due before the next old one
        self._alone: InFlight[S] | None = None  # under way, and nothing else may be
        self._alone_until = 0.0
        self._dropped = 0  # all events up to this position are gone
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._stopped = False
        self._pump = Pump(out.scheduler, self._send_ready)
        out.retries(self.failed)

    def __repr__(self) -> str:
        return f"<Sender {len(self.ready)} ready, {self._sent} events sent, {self._waiting!r}>"

    @property
    def sent(self) -> int:
        """Events that were sent and are not settled."""
        return self._sent

    def failed(self, most: int) -> FailedEvents:
        """What has failed and waits, or is tried again now; the oldest parts, so many at the most."""
        now = self._scheduler.time()
        parts = [*self._again_parts, *self._waiting]
        parts.sort(key=lambda part: part.first)
        return FailedEvents(
            sum(part.count for part in parts),
            [
                FailedPart(
                    part.first,
                    part.count,
                    part.sink,
                    part.blame.tries,
                    part.blame.counted,
                    self._seconds_to(part, now),
                    part.verdict or part.cause,
                )
                for part in parts[:most]
            ],
        )

    def _seconds_to(self, part: InFlight[S], now: float) -> float:
        if part in self._again_parts:
            return 0.0
        return max(0.0, (max(part.due, self._record.old.due) if self._record.old.only else part.due) - now)

    def waits_for(self) -> str:
        """What it waits for if only a timer will let it send; "": for something else, or nothing."""
        if self._sent or self._timer is None:
            return ""
        seconds = max(0.0, self._timer_at - self._scheduler.time())
        part = min(self._waiting, default=None, key=lambda one: one.first)
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
        self._waiting.forget(last)

    # what goes

    def _send_ready(self) -> None:
        events = size = 0
        now = self._scheduler.time()  # once: what is due a moment later needs the timer
        while not self._stopped:
            if size >= TURN_BYTES or events >= TURN_EVENTS:
                self._pump.later()
                break
            part = self._next(now)
            if part is None or not self._send(part):
                break
            size += part.size
            events += BLOCK + part.count
            self._has_tried(part, now)
        self._arm(now)

    def _next(self, now: float) -> InFlight[S] | None:
        """Taken off its queue. None: nothing may be sent now."""
        most = self._limits.events
        if self._alone is not None and now >= self._alone_until:
            self._no_longer_alone(self._alone)
        if self._alone is not None or (most is not None and self._sent >= most):
            return None
        waiting, old = self._waiting, self._record.old
        if not waiting:
            return self._next_new(now)
        first, due = waiting.first, waiting.due
        if old.only:
            if now < old.due or (self._probed_old and first is None and self._has_new(now)):
                return self._next_new(now) if first is None else None
            part = waiting.probe()
            if self._is_apart(part):
                return waiting.take(part) if self._fits(part, now) else None
            return self._next_new(now) if first is None else None
        if first is not None and first.due <= now:
            return waiting.take(first) if self._is_apart(first) and self._fits(first, now) else None
        if due is not None and due.due <= now and self._may_go_again(due, now):
            if not self._fits(due, now):
                return None
            self._turns = SHARE - 1 if due.proven else 0
            return waiting.take(due)
        return self._next_new(now) if first is None else None

    def _has_tried(self, part: InFlight[S], now: float) -> None:
        """A probe is one once it was sent: a gate that is shut uses up no turn."""
        self._probed_old = part.failures > 0
        probes = self._record.old if self._probed_old else self._record.new
        if probes.only:
            probes.tried(now)

    def _fits(self, part: InFlight[S], now: float) -> bool:
        """Otherwise it waits until more is settled, and no new part takes its place."""
        if part.alone and self._sent:
            if now < part.due + HOLDS_UP:
                return False
            part.alone = False
        most = self._limits.events
        return most is None or not self._sent or self._sent + part.count <= most

    def _no_longer_alone(self, part: InFlight[S]) -> None:
        """Its outcome takes long: others go on, and its failure says nothing of it."""
        part.alone = False
        self._alone = None

    def _may_go_again(self, part: InFlight[S], now: float) -> bool:
        """What failed because the sink was away goes before what is newer, in its order."""
        if not self._is_apart(part):
            return False
        if not part.proven:
            return True
        if self._turns > 0 and self._waiting.first is None and self._has_new(now):
            return False
        if not self._again_events:
            return True
        most = self._limits.events
        fits = self._again_bytes + part.size <= self._out.window // SHARE
        return fits and (most is None or self._again_events + part.count <= most // SHARE)

    def _is_apart(self, part: InFlight[S]) -> bool:
        """Of what failed with others, for a reason that may be any of them, nothing else that failed is under way.
        So each failure says of which."""
        return not self._again_parts or not (part.shared or self._again_shared)

    def _has_new(self, now: float) -> bool:
        many = self._waiting.bytes > self._out.window and len(self._waiting) > FEW
        if many or (self._record.new.only and now < self._record.new.due):
            return False
        return bool(self.ready) or self._supply.fill()

    def _next_new(self, now: float) -> InFlight[S] | None:
        if not self._has_new(now):
            return None
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
        given_up = not part.verdict and self._is_given_up(part)
        if given_up:
            self._give_up(part)
        known = part.delivered if part.delivered is not None or not part.failures else AGAIN
        receipt = Receipt(self._settled, part.count, part, known)
        block = self._supply.block(part, receipt) if part.last > self._dropped else None
        if block is None:
            receipt.withdraw()
            return True
        self._now_sent(part, 1)
        part.sent = self._record.count
        self._supply.sent(part)
        if part.verdict and not part.kept:
            self._out.reject(block, part.verdict, part.told or {})
            return True
        if given_up:
            self._out.note_rejected(block, part.verdict, part.told or {})
        if self._out.send(block):
            return True
        self._now_sent(part, -1)
        self._supply.returned(part)
        receipt.withdraw()
        if part.failures:
            self._waiting.add(part)
        else:
            self.ready.appendleft(part)
        return False

    def _now_sent(self, part: InFlight[S], sign: int) -> None:
        self._sent += sign * part.count
        if part.alone and sign > 0:
            self._alone, self._alone_until = part, self._scheduler.time() + HOLDS_UP
        elif part is self._alone:
            self._alone = None
        if part.failures:
            self._again_events += sign * part.count
            self._again_bytes += sign * part.size
            self._again_shared += sign * part.shared
            if sign > 0:
                self._again_parts[part] = None
            else:
                self._again_parts.pop(part, None)

    def _is_given_up(self, part: InFlight[S]) -> bool:
        """Not while a sink has rejected it and the error record is not delivered: it has its outcome there."""
        attempts = self._limits.attempts
        rejected = part.delivered is not None and part.delivered.refused
        return attempts is not None and part.count == 1 and part.blame.counted >= attempts and not rejected

    def _give_up(self, part: InFlight[S]) -> None:
        place = self._supply.place(part)
        attempts = part.blame.counted
        times = "once" if attempts == 1 else f"{attempts} times"
        at = f" at {part.sink}" if part.sink else ""
        part.verdict = f"failed {times}{at}: {part.cause}{f' ({place})' if place else ''}"
        self._supply.given_up(part)
        part.told = {"sink": part.sink, "position": part.first, "attempts": attempts, "cause": part.cause}
        part.kept = bool(part.sinks) and part.sinks <= self._limits.letters
        if part.kept:
            known = part.delivered or AGAIN
            refused = {name: {0: part.verdict} for name in part.failed_by}
            part.delivered = Delivered(known.has, {**known.refused, **refused})

    # what becomes of it

    def _settled(self, receipt: Receipt) -> None:
        part: InFlight[S] = receipt.ref  # type: ignore[assignment]  # it is what we gave it
        self._now_sent(part, -1)
        self._record.count += 1
        if receipt.cause is None:
            if self._record.took(receipt.takers(), part.last, part.sent, part.sinks):
                self._waiting.all_due(self._scheduler.time())
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
        # the same event may come to a sink by two ways: that it took one of them is nothing else that it took
        before = self._record.taken(outcome.failing(0, 1)) if part.count == 1 else None
        taken = receipt.takers()
        if taken and self._record.took(taken, part.first + delivered[-1] - 1 if delivered else 0, part.sent):
            self._waiting.all_due(self._scheduler.time())
        for start, stop, failed in found:
            if not failed:
                self._supply.acked(part, part.first + start, part.first + stop - 1)
        for start, stop, failed in found:
            if failed:
                self._again(part, receipt, start, stop, cause, before)

    def _again(
        self, part: InFlight[S], receipt: Receipt, start: int, stop: int, cause: BaseException, before: int | None
    ) -> None:
        """Events `start` to `stop` of the part have failed. `before`: when their sinks had taken something last."""
        outcome = receipt.outcome()
        sinks = outcome.failing(start, stop)
        blame = part.blame
        now = self._scheduler.time()
        taken = self._record.taken(sinks) if before is None else before
        suspected = blame.suspects(taken) or self._holds_up(part, now)
        others_passed = suspected and not isinstance(cause, Blameless)
        of_many = part.failures > 0 and all(isinstance(one, OneOfMany) for one in receipt.causes())
        counts = others_passed and (part.alone or not of_many)
        passed = self._record.has_passed(sinks, part.first + stop)
        if self._record.failed(sinks, now, again=part.failures > 0):
            self._out.waits()
        first, last = part.first + start, part.first + stop - 1
        self._supply.failed(part, first, last)
        count = stop - start
        halves = count > 1 and (part.halved or part.failures > 0)
        middle = start + (count >> 1)
        failures = 1 if halves and others_passed else part.failures + 1
        for begin, end in [(start, middle), (middle, stop)] if halves else [(start, stop)]:
            low, high = part.first + begin, part.first + end - 1
            again = InFlight(
                low,
                high,
                self._supply.cut(part, low, high),
                size=part.size * (end - begin) // part.count,
                delivered=outcome.between(begin, end),
                failures=failures,
                blame=blame.failed(self._record.count, counts=counts and not part.verdict, events=part.count),
                proven=part.proven or others_passed,
                halved=part.halved or halves,
                untried=halves,
                shared=of_many and not counts,
                holds=not passed and part.failures < _patience(cause),
                failed_at=part.failed_at if part.failures else now,
                due=now + _wait(low, failures),
                sinks=frozenset(sinks),
                sink=" and ".join(sorted(named(sinks))),
                cause=str(cause),
                failed_by=outcome.failed_by(start, stop),
                verdict=part.verdict,
                kept=part.kept and bool(outcome.refused),
                told=part.told,
            )
            again.alone = of_many and (part.alone or others_passed) and self._needs_proof(again)
            self._waiting.add(again)
        self._out.log.warning(
            "redelivery",
            position=first,
            events=count,
            attempts=blame.tries + 1,
            sink=" and ".join(sorted(named(sinks))),
            cause=str(cause),
        )

    def _needs_proof(self, part: InFlight[S]) -> bool:
        """Another failure may count against it, and it is not given up yet."""
        attempts = self._limits.attempts
        return attempts is not None and part.count == 1 and not part.verdict and part.blame.counted < attempts

    def _holds_up(self, part: InFlight[S], now: float) -> bool:
        """All others have passed it, and no newer ones can come before it has an outcome: nothing else would ever
        make an attempt count. A sink that tries by itself may take long for each failure, so time is what counts."""
        if part.count > 1 or not part.failures or now - part.failed_at < HOLDS_UP or self.ready:
            return False
        left = self._sent + 1 + sum(other.count for other in self._waiting)
        return self._supply.is_held_up(left, passed=part.proven and all(other.proven for other in self._waiting))

    # and when

    def _arm(self, now: float) -> None:
        """One timer, for what is due next."""
        waiting, old, new = self._waiting, self._record.old, self._record.new
        if not waiting and not new.only and not self._timer_at and self._alone is None:
            return
        times = [old.due] if waiting and old.only else [part.due for part in (waiting.first, waiting.due) if part]
        nearest = [waiting.first, waiting.due, *([waiting.probe()] if waiting and old.only else [])]
        times += [part.due + HOLDS_UP for part in nearest if part is not None and part.alone]
        if self._alone is not None:
            times.append(self._alone_until)
        if new.only:
            times.append(new.due)
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
    """What has failed often has waits of different lengths: else two events that are sent together fail together each
    time, if one of them ends the connection. Multiples of the golden ratio are spread evenly, however many there
    are."""
    wait = BACKOFF.after(failures)
    return wait if failures < SPREAD else wait * (1 - position * GOLDEN % 1 / 2)


def _patience(cause: BaseException) -> int:
    """So many failures newer events wait for: for the second try of each; for what a peer that is away gets in its
    order."""
    if isinstance(cause, PeerAway):
        return ORDERLY
    return 0 if isinstance(cause, HandedBack) else 1
