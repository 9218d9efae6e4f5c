"""Tells a source the outcome of the events of a stream: one outcome for all events between two marks."""

from collections.abc import Callable
from functools import partial

from walflow.contract import Marked
from walflow.receipt import Receipt, Settled


def _nothing(marked: Marked) -> None: ...


class SinceMark:
    """The events of a stream since its last mark. The outcome is known when the next mark was made and each block is
    settled."""

    __slots__ = ("_cause", "_pending", "_tell", "_unended")

    def __init__(self) -> None:
        self._pending = 1  # the mark to come
        self._cause: BaseException | None = None
        self._unended = 0
        self._tell: Callable[[Marked], None] = _nothing

    def __repr__(self) -> str:
        return f"<SinceMark {self._pending} pending>"

    def include(self, settled: Settled) -> Settled:
        """Adds one block. Returns what its receipt calls instead of `settled`."""
        self._pending += 1
        return partial(self._block_settled, settled)

    def mark(self, unended: int, tell: Callable[[Marked], None]) -> None:
        self._unended, self._tell = unended, tell
        self._one_less()

    def _block_settled(self, settled: Settled, receipt: Receipt) -> None:
        self._cause = self._cause or receipt.cause
        self._one_less()
        settled(receipt)

    def _one_less(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._tell(Marked(self._unended, self._cause))
