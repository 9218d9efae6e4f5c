"""Sends events of a block to several ways, where the same event may go another way when it comes again.

What has been delivered on one way is not sent on another one: upstream, this operator itself has it. Of an event that
failed, those behind the way that have it are known upstream too, and do not get it again, whichever way it takes
then. What a sink has rejected takes the same way again, so that its error record alone is sent again, and no other
sink takes it too.
"""

from collections.abc import Sequence
from typing import NamedTuple

from walflow.codecs import JSON
from walflow.event import Block, Frames, Node
from walflow.framing import LINES
from walflow.operators.operator import OperatorErr


class Part(NamedTuple):
    """The events of these numbers, in ascending order."""

    to: Node
    way: str
    numbers: Sequence[int]
    emptied: bool = False  # their bytes end here, and their errors go on


def turn_out(block: Block, parts: Sequence[Part], name: str) -> None:
    """Sends all events of the block, each in one part, for the operator of that name."""
    block.receipt.fork(len(parts) - 1)
    for part, ready in [(part, _ready(block, part, name)) for part in parts]:
        part.to.accept(ready)


def _ready(block: Block, part: Part, name: str) -> Block:
    receipt = block.receipt.pick(part.numbers, name=name, way=part.way)
    if part.emptied:
        frames = Frames(LINES.join([b""] * len(part.numbers)), len(part.numbers), LINES)
        return block.picked(part.numbers, frames, JSON, receipt)
    if len(part.numbers) == block.frames.count:
        return block.with_frames(block.frames, block.codec, receipt)
    return block.picked(part.numbers, block.frames.picked(part.numbers), block.codec, receipt)


class _Refusing:
    def __init__(self, err: OperatorErr, reasons: Sequence[str]) -> None:
        self._err = err
        self._reasons = reasons

    def accept(self, block: Block) -> None:
        self._err.take(block, self._reasons)


def refused_part(err: OperatorErr, numbers: Sequence[int], reasons: Sequence[str]) -> Part:
    """`reasons`: of each of these events."""
    return Part(_Refusing(err, reasons), "", numbers, emptied=True)
