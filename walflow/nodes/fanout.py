"""Where blocks go on from a port: to one taker, to several, or nowhere."""

from collections.abc import Sequence

from walflow.event import Block, Node
from walflow.metrics import CountedValue


class Fanout:
    """Every taker gets the same block; its receipt settles when all have."""

    __slots__ = ("targets",)

    def __init__(self, targets: Sequence[Node]) -> None:
        self.targets = tuple(targets)

    def accept(self, block: Block) -> None:
        block.receipt.fork(len(self.targets) - 1)
        for target in self.targets:
            target.accept(block)


class AtPort:
    """An input of a connector that has several: its one sink is told which."""

    __slots__ = ("_port", "_to")

    def __init__(self, to: Node, port: str) -> None:
        self._to = to
        self._port = port

    def accept(self, block: Block) -> None:
        self._to.accept(block.at_port(self._port))


class DeadEnd:
    """A port that leads nowhere: acked, as filtered events are, and counted. `check` warns of it."""

    __slots__ = ("dropped",)

    def __init__(self, dropped: CountedValue) -> None:
        self.dropped = dropped

    def accept(self, block: Block) -> None:
        self.dropped.value += block.frames.count
        block.receipt.ack()


def joined(targets: Sequence[Node]) -> Node:
    """The least node that reaches all targets, one at least: a passthrough pipeline costs no hop."""
    return targets[0] if len(targets) == 1 else Fanout(targets)
