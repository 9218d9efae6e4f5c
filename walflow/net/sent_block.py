"""A block whose events go out one by one, and have their outcomes one by one."""

from collections.abc import Mapping
from itertools import groupby

from walflow.contract import Inlet
from walflow.errors import HandedBack, WalflowError
from walflow.event import Block


class NotConfirmed(WalflowError):
    """No peer has confirmed the event. It may be there."""


class NothingElse(NotConfirmed, HandedBack):
    """The same, of all that the sink has in hand. It gets nothing else to try, because its source waits for these."""


class SentBlock:
    """`left`: events without an outcome. `refused`: those that were not delivered, with the reason, and whether they never can
    be."""

    __slots__ = ("block", "left", "messages", "metas", "refused")

    def __init__(self, block: Block, messages: list[bytes]) -> None:
        self.block = block
        self.messages = messages
        self.metas = block.event_metas
        self.left = len(messages)
        self.refused: dict[int, tuple[bool, str]] = {}

    def __repr__(self) -> str:
        return f"<SentBlock of {self.block!r}, {self.left} left>"

    def meta(self, number: int) -> Mapping[str, object]:
        return self.block.meta if self.metas is None else self.metas[number]

    def settle(self, inlet: Inlet) -> None:
        if not self.refused:
            inlet.ack(self.block)
            return
        runs = [(key, len(list(group))) for key, group in groupby(range(len(self.messages)), self.refused.get)]
        for part, (outcome, _) in zip(self.block.split([count for _, count in runs]), runs, strict=True):
            if outcome is None:
                inlet.ack(part)
            elif outcome[0]:
                inlet.reject(part, outcome[1])
            else:
                inlet.fail(part, NotConfirmed(outcome[1]))
