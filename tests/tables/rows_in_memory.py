"""A `TableStore` in memory, whose transactions can be undone. What it takes and refuses, its classes say."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from walflow.event import Block
from walflow.frontier import Frontier


class RowsInMemory:
    orders = False
    superseded = 0

    def __init__(self) -> None:
        self.rows: list[object] = []
        self.frontiers: dict[str, Frontier] = {}
        self.transactions = 0

    def open(self) -> None: ...
    def close(self) -> None: ...

    def row(self, value: object, meta: Mapping[str, object]) -> object:
        return value

    def json_rows(self, block: Block) -> Sequence[object] | None:
        return None

    def look(self, log: str, sink: str) -> Frontier | None:
        return self.frontiers.get(log)

    read = look

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self.frontiers[log] = frontier

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        self.transactions += 1
        before = [*self.rows], {**self.frontiers}
        undone = False

        def undo() -> None:
            nonlocal undone
            undone = True

        try:
            yield undo
        except BaseException:
            undone = True
            raise
        finally:
            if undone:
                self.rows, self.frontiers = before
