"""May a writer go on from what the receiver says? Plain functions of three things: the frontier, the log, and what
the log's directory kept of the receiver."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from walflow.event import PositionLog
from walflow.frontier.keys import WriterKeys
from walflow.frontier.value import Frontier
from walflow.positions import Range


class LogView(NamedTuple):
    """`next`: the position that the next event gets. `low`: up to this position it sends nothing any more. `spans`:
    first and last position of each term that it still has.
    `relaxed`: it may go back by a power cut, and then goes on."""

    next: int
    low: int
    spans: Mapping[int, Range]
    relaxed: bool = False

    @classmethod
    def of(cls, log: PositionLog) -> Self:
        """As it is now. To be called where the log lives, on the loop."""
        return cls(log.next, log.low, log.spans(), log.relaxed)

    def term(self, position: int) -> int | None:
        """None: the log has no such position, or no more."""
        return next((term for term, (first, last) in self.spans.items() if first <= position <= last), None)


class Fits(NamedTuple):
    """The writer goes on. `frontier` is None: the receiver has nothing of this log yet, and never had."""

    frontier: Frontier | None


class LogWentBack(NamedTuple):
    """The receiver has a position that the log has not given, or gave to another event, or the log would send what
    the receiver was told to forget: the log was restored from a copy, or was cut."""

    has: int
    next: int


class ReceiverWentBack(NamedTuple):
    """The receiver has confirmed `confirmed`, and has `has` now:
    it was restored, or emptied, or a failover lost commits."""

    has: int
    confirmed: int


class OtherWriter(NamedTuple):
    """Another process has the frontier, under a token that is not ours; or the sink itself, under another name."""

    epoch: int
    beat: int
    moved_to: str = ""


Verdict = Fits | LogWentBack | ReceiverWentBack | OtherWriter


def judged(frontier: Frontier | None, keys: WriterKeys, log: LogView) -> Verdict:
    """The order counts: a receiver that went back says nothing true of who writes,
    and a log that went back is no other writer's heir."""
    confirmed = keys.confirmed
    if frontier is None:
        return ReceiverWentBack(0, confirmed.position) if confirmed.position else Fits(None)
    if frontier.epoch < keys.epoch or frontier.lacks(confirmed):
        return ReceiverWentBack(frontier.highest, confirmed.position)
    other_event = log.term(frontier.highest) not in (None, frontier.term)
    if log.next <= frontier.highest or log.low < frontier.forgotten or other_event:
        return LogWentBack(frontier.highest, log.next)
    if frontier.token not in keys.tokens:
        return OtherWriter(frontier.epoch, frontier.beat, frontier.moved_to)
    return Fits(frontier)
