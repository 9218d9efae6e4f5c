"""Messages that have their outcomes one by one: what their peer does not take for the moment is sent again.

The rule is that of decision 0047. While nothing is taken, the peer is away: all waits, at growing waits, and nothing
counts. If others are taken meanwhile, the message may be to blame: it waits alone, and after `ATTEMPTS` such failures
its event fails. Then its source decides.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import FailedEvents, FailedPart, Inlet, Timer
from walflow.net.sent_block import NoneConfirmed, NotConfirmed, NothingElse, Refusal, SentBlock
from walflow.outage import NO_BLAME, Rounds
from walflow.sinks import PeerSink

ATTEMPTS: Final = 3  # failures of one message, with others taken in between
PATIENCE: Final = 3  # waits in a row after which something new is asked for, and may pass what has failed

NumberedMessage = tuple[SentBlock, int]  # and its place in the block


def any_untried(messages: Iterable[NumberedMessage]) -> bool:
    """Whether one of them has not failed yet."""
    return any(number not in sent.failures for sent, number in messages)


class MessageRetries:
    """`sink`: whose messages they are. `again`: takes messages that are to be sent, before all others or behind
    them. `has_untried`: whether the sink has anything in hand that has not failed, and may show that the peer takes
    something. `peer`: for the log line."""

    def __init__(
        self,
        inlet: Inlet,
        sink: PeerSink,
        again: Callable[[Sequence[NumberedMessage], bool], None],
        has_untried: Callable[[], bool],
        **peer: object,
    ) -> None:
        self.waits = False  # nothing is to be sent
        self._inlet = inlet
        self._sink = sink
        self._again = again
        self._has_untried = has_untried
        self._peer = peer
        self._backoff = Backoff(0.1, 10.0)  # of one that waits alone
        self._rounds = Rounds(Backoff(0.1, 10.0))  # waits without anything taken
        self._waiting: dict[NumberedMessage, tuple[float, str]] = {}  # when each is due, and why it failed
        self._kept: list[NumberedMessage] = []  # of these, those that all wait for
        self._taken = 0
        self._timers: list[Timer] = []
        self._over = False
        self._asked = False  # for something new: the breaker is triggered, and lets the next block through
        self._reason = ""
        inlet.retries(self._tell)

    def __repr__(self) -> str:
        return f"<MessageRetries {len(self._waiting)} wait, {self._rounds!r}: {self._reason or 'well'}>"

    def came(self) -> None:
        """A block did."""
        if self._asked:
            self._asked = False
            self._sink.breaker.answered()

    def took(self, count: int) -> None:
        """The peer has taken so many messages, or refused them for good."""
        self._taken += count

    def passed(self) -> None:
        """After `took`, and after `failed` of what was told at the same time."""
        if not self.waits:
            self._rounds.took()
            self.restore()

    def failed(self, message: NumberedMessage, reason: str) -> Refusal | None:
        """None: it is kept, and sent again. Otherwise its event fails so."""
        sent, number = message
        is_suspect = sent.failures.get(number, NO_BLAME).suspects(self._taken)
        failures = sent.failed(number, self._taken)
        if failures.counted >= ATTEMPTS:
            return NotConfirmed, f"{reason} ({failures.tries} times, and others were taken)"
        alone = failures.counted > 0
        still = alone and not is_suspect and not self._has_untried()
        if self._inlet.upstream.behind_log and (self._asked or still):
            self._ask()
            return NothingElse, reason  # its source may send no more before it has these back
        if alone:
            if is_suspect and not self.waits:
                self.restore()  # others were taken since, so this is no outage
            self._wait_alone(message, self._backoff.after(failures.tries), reason)
        else:
            self._kept.append(message)
            self.wait(reason)
            self._waiting[message] = self._rounds.due, reason
        return None

    def _wait_alone(self, message: NumberedMessage, seconds: float, reason: str) -> None:
        self._waiting[message] = self._inlet.scheduler.time() + seconds, reason
        self._later(seconds, lambda: self._send([message]))

    def wait(self, reason: str) -> None:
        """Before anything is sent again."""
        if self.waits:
            return
        self.waits = True
        self.trigger(reason)
        now = self._inlet.scheduler.time()
        self._rounds.begin(now)
        self._later(self._rounds.due - now, self._go_on)

    @property
    def triggered(self) -> bool:
        return self._sink.trouble is not None

    def trigger(self, reason: str) -> None:
        if not self.triggered:
            self._inlet.log.warning("cannot deliver", **self._peer, reason=reason)
        self._reason = reason
        self._sink.refuses(NoneConfirmed(reason))

    def restore(self) -> None:
        self._asked = False
        self._sink.delivered()

    def forget(self) -> None:
        """All that waits has its outcome."""
        self._kept = []
        self._waiting = {}

    def _go_on(self) -> None:
        self.waits = False
        kept, self._kept = self._kept, []
        if self._inlet.upstream.replaceable:
            self.restore()  # the next event is to show whether it can be sent
        elif self._rounds.row >= PATIENCE and not self._has_untried():
            self._ask()
        self._send(kept)

    def _ask(self) -> None:
        """For something new: nothing else could show that the peer takes something."""
        if self.triggered and not self._asked:
            self._asked = True
            self._sink.breaker.ask()

    def end(self) -> None:
        """The run is over."""
        self._over = True
        for timer in self._timers:
            timer.cancel()

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.remove(timer)
            call()

        if not self._over:
            timer = self._inlet.scheduler.call_later(seconds, due)
            self._timers.append(timer)

    def _send(self, messages: Sequence[NumberedMessage]) -> None:
        """In their old place, until it is more likely that they are to blame."""
        left = [message for message in messages if self._waiting.pop(message, None) is not None]
        self._again(left, self._rounds.row < PATIENCE)

    def _tell(self, most: int) -> FailedEvents:
        now = self._inlet.scheduler.time()
        parts: list[FailedPart] = []
        for (sent, number), (due, reason) in islice(self._waiting.items(), most):
            tries, counted, _ = sent.failures[number]
            seconds = max(0.0, due - now)
            parts.append(FailedPart(sent.position(number), 1, self._inlet.name, tries, counted, seconds, reason))
        return FailedEvents(len(self._waiting), parts)
