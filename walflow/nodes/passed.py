"""What several lanes pass counts once: when the first of them comes by."""

from typing import Final

from walflow.event import Block, Node


class Passed:
    """The position up to which a log's events have passed a place."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def __repr__(self) -> str:
        return f"<Passed to {self._last}>"

    def first(self, block: Block) -> bool:
        """Whether no lane has brought these events here before."""
        origin = block.origin
        if origin is None:
            return True
        if origin.last <= self._last:
            return False
        self._last = origin.last
        return True


class _EachTime(Passed):
    __slots__ = ()

    def first(self, block: Block) -> bool:
        return True


EACH_TIME: Final[Passed] = _EachTime()  # where no lanes meet


class FirstTime:
    """Two nodes that do the same to a block. The one for the first time also counts it and shows it."""

    __slots__ = ("_again", "_first", "_passed")

    def __init__(self, passed: Passed, first: Node, again: Node) -> None:
        self._passed = passed
        self._first = first
        self._again = again

    def accept(self, block: Block) -> None:
        (self._first if self._passed.first(block) else self._again).accept(block)
