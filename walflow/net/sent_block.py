"""A block whose events go out one by one, and have their outcomes one by one."""

from collections.abc import Mapping
from itertools import groupby

from walflow.contract import Inlet
from walflow.errors import HandedBack, OneOfMany, WalflowError
from walflow.event import Block
from walflow.outage import NO_BLAME, Blame


class NotConfirmed(WalflowError):
    """No peer has confirmed the event. It may be there."""


class NoneConfirmed(NotConfirmed, OneOfMany):
    """Of several events that were sent together."""


class NothingElse(NotConfirmed, HandedBack):
    """The same, of all that the sink has in hand. It gets nothing else to try, because its source waits for these."""


Refusal = tuple[type[NotConfirmed] | None, str]  # and why; None: it can never be delivered


class SentBlock:
    """`left`: events without an outcome. `refused`: those that were not delivered. `failures`: of those that were not
    taken for the moment."""

    __slots__ = ("block", "failures", "left", "messages", "metas", "refused")

    def __init__(self, block: Block, messages: list[bytes]) -> None:
        self.block = block
        self.messages = messages
        self.metas = block.event_metas
        self.left = len(messages)
        self.refused: dict[int, Refusal] = {}
        self.failures: dict[int, Blame] = {}

    def __repr__(self) -> str:
        return f"<SentBlock of {self.block!r}, {self.left} left>"

    def meta(self, number: int) -> Mapping[str, object]:
        return self.block.meta if self.metas is None else self.metas[number]

    def failed(self, number: int, taken: int) -> Blame:
        """The failures of this event, with one more. `taken`: how many others its peer has taken until now."""
        before = self.failures.get(number, NO_BLAME)
        self.failures[number] = found = before.failed(taken, counts=before.suspects(taken))
        return found

    def position(self, number: int) -> int:
        """Of an event, in its log; 0: it has none."""
        positions = self.block.positions
        return positions[number] if positions else 0

    def settle(self, inlet: Inlet) -> None:
        if not self.refused:
            inlet.ack(self.block)
            return
        runs = [(key, len(list(group))) for key, group in groupby(range(len(self.messages)), self.refused.get)]
        for part, (outcome, _) in zip(self.block.split([count for _, count in runs]), runs, strict=True):
            if outcome is None:
                inlet.ack(part)
            elif outcome[0] is None:
                inlet.reject(part, outcome[1])
            else:
                inlet.fail(part, outcome[0](outcome[1]))
