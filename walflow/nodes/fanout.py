"""The node after a port: one taker, several takers, or none."""

from collections.abc import Sequence

from walflow.event import Block, Node
from walflow.metrics import CountedValue


class Fanout:
    """Gives each taker the same block. The receipt settles when all takers have settled it."""

    __slots__ = ("targets",)

    def __init__(self, targets: Sequence[Node]) -> None:
        self.targets = tuple(targets)

    def accept(self, block: Block) -> None:
        block.receipt.fork(len(self.targets) - 1)
        for target in self.targets:
            target.accept(block)


class MeetingFanout(Fanout):
    """The ways that part here meet again. So what comes to the same sink by two of them is told apart in the receipt:
    it may have one of them and lack the other."""

    __slots__ = ()

    def accept(self, block: Block) -> None:
        block.receipt.fork(len(self.targets) - 1)
        copies = [
            block.with_frames(block.frames, block.codec, block.receipt.pick(None, tag=f" &{way}"))
            for way in range(len(self.targets))
        ]
        for target, copy in zip(self.targets, copies, strict=True):
            target.accept(copy)


class AtPort:
    """One input of a connector that has several inputs. It tells the sink which input the block came by."""

    __slots__ = ("_port", "_to")

    def __init__(self, to: Node, port: str) -> None:
        self._to = to
        self._port = port

    def accept(self, block: Block) -> None:
        self._to.accept(block.at_port(self._port))


class DeadEnd:
    """A port that is not linked. It acks each block, as if its events were filtered, and counts them. `check` warns
    of it."""

    __slots__ = ("dropped",)

    def __init__(self, dropped: CountedValue) -> None:
        self.dropped = dropped

    def accept(self, block: Block) -> None:
        self.dropped.value += block.frames.count
        block.receipt.ack()


def joined(targets: Sequence[Node], *, meet: bool) -> Node:
    """The simplest node that gives blocks to all targets. There is at least one target. With one target it is the
    target itself, so a passthrough pipeline costs nothing. `meet`: a block may come to one node by two of them."""
    if len(targets) == 1:
        return targets[0]
    return MeetingFanout(targets) if meet else Fanout(targets)
