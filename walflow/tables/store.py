"""What a connector with a database writes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from walflow.errors import WalflowError
from walflow.event import Block
from walflow.frontier import Frontier

R = TypeVar("R")


class CannotUse(WalflowError):
    """The table cannot be used now; later it may be. The line says why."""


class RowRefusal(NamedTuple):
    """Why the table refuses a row. `code`: the database's own name for it, as an SQLSTATE; there are few."""

    reason: str
    code: str


class RowEnds(WalflowError):
    """A row ended the transaction: nothing is stored. `number`: of the row, None if it is not known."""

    def __init__(self, number: int | None, refusal: RowRefusal) -> None:
        super().__init__(refusal.reason)
        self.number = number
        self.refusal = refusal


class TableStore(Protocol[R]):
    """A table, and beside it the rows of the frontiers, by log and sink. R: what `insert` takes as a row. All of it
    blocks, and is called on one thread at a time.

    `orders`: a later row may replace an earlier one, so none may pass one that was refused."""

    @property
    def orders(self) -> bool: ...

    @property
    def superseded(self) -> int:
        """Rows of the last `insert` that a later one of it has replaced."""
        ...

    def open(self) -> None:
        """Connects, if it is not; knows the table then. Raises CannotUse."""
        ...

    def row(self, value: object, meta: Mapping[str, object]) -> R:
        """Of an event. Raises NotARow, CannotUse."""
        ...

    def json_rows(self, block: Block) -> Sequence[R] | None:
        """Of a block of JSON, as it came. None: `row` is to be asked for each event, because the columns need
        values."""
        ...

    def look(self, log: str, sink: str) -> Frontier | None:
        """Changes nothing, and waits for no other transaction. Raises CannotUse."""
        ...

    def transaction(self) -> AbstractContextManager[Callable[[], None]]:
        """All of it, or nothing; on disk once it has ended. What it gives undoes it. Raises CannotUse; if the end of
        the block raised it, all may have been stored."""
        ...

    def read(self, log: str, sink: str) -> Frontier | None:
        """In a transaction. No other transaction changes it before this one ends."""
        ...

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        """In a transaction that has read it."""
        ...

    def insert(self, rows: Sequence[R | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        """In a transaction. None is no row. Returns by number the rows that the table refuses, and why; none of them
        is stored. Raises RowEnds; called with `apart` after it, it stores them one after the other."""
        ...

    def close(self) -> None:
        """What was not committed is not there."""
        ...
