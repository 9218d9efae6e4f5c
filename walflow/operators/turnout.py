"""Sends events of a block to several ways, where the same event may go another way when it comes again.

A receipt remembers which sinks have acked, so that what comes again is left out there. That would be wrong here: what a
sink has acked says nothing about an event that went the other way before. So each part has a receipt of this operator's own, and
upstream sees the operator's name alone, as with a round robin.
"""

from collections.abc import Sequence
from typing import NamedTuple

from walflow.codecs import JSON
from walflow.event import Block, Frames, Node, Receipt
from walflow.framing import LINES
from walflow.operators.operator import OperatorErr


class Part(NamedTuple):
    """The events of these numbers, in ascending order."""

    to: Node
    numbers: Sequence[int]
    emptied: bool = False  # their bytes end here, and their errors go on


class _Sent(NamedTuple):
    block: Block
    numbers: Sequence[int]


class Turnout:
    def __init__(self, name: str) -> None:
        self._name = name

    def settles(self, block: Block) -> bool:
        """Whether another branch alone has failed the block: all of it was delivered here."""
        if self._name not in block.receipt.skip:
            return False
        block.receipt.ack(self._name)
        return True

    def send(self, block: Block, parts: Sequence[Part]) -> None:
        """All events of the block, each in one part."""
        block.receipt.fork(len(parts) - 1)
        for part, ready in [(part, self._ready(block, part)) for part in parts]:
            part.to.accept(ready)

    def _ready(self, block: Block, part: Part) -> Block:
        receipt = Receipt(self._settled, len(part.numbers), _Sent(block, part.numbers))
        if part.emptied:
            frames = Frames(LINES.join([b""] * len(part.numbers)), len(part.numbers), LINES)
            return block.picked(part.numbers, frames, JSON, receipt)
        if len(part.numbers) == block.frames.count:
            return block.with_frames(block.frames, block.codec, receipt)
        return block.picked(part.numbers, block.frames.picked(part.numbers), block.codec, receipt)

    def _settled(self, receipt: Receipt) -> None:
        sent = receipt.ref
        assert isinstance(sent, _Sent)
        if receipt.cause is None or receipt.done == receipt.count:
            sent.block.receipt.ack(self._name)
        else:
            sent.block.receipt.fail(receipt.cause, sent.numbers[receipt.done], self._name)


class _Refusing:
    def __init__(self, err: OperatorErr, reasons: Sequence[str]) -> None:
        self._err = err
        self._reasons = reasons

    def accept(self, block: Block) -> None:
        self._err.take(block, self._reasons)


def refused_part(err: OperatorErr, numbers: Sequence[int], reasons: Sequence[str]) -> Part:
    """`reasons`: of each of these events."""
    return Part(_Refusing(err, reasons), numbers, emptied=True)
