"""The suite for tables: those that keep its promises pass, and each broken one is found."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.sqlite.table import SqliteTable
from walflow.cli.new.templates.connector.ledger import LedgerTable
from walflow.frontier import Frontier
from walflow.tables import WHOLE, RowRefusal, TableStore
from walflow.testing.simulation.tables import StoryTable, TablePeer
from walflow.testing.tables import TableSubject, check_table, table_promises


class InFile(TableSubject):
    """`make`: of a path."""

    def __init__(self, make: Callable[[str], TableStore[Any]], select: str) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._path = str(self._folder / "rows.db")
        self._make = make
        self._select = select

    def store(self) -> TableStore[Any]:
        return self._make(self._path)

    def rows(self) -> Sequence[object]:
        with closing(sqlite3.connect(self._path)) as file:
            return [json.loads(row) for (row,) in file.execute(self._select)]

    def close(self) -> None:
        shutil.rmtree(self._folder)


def ledger(make: Callable[[str], TableStore[Any]] = LedgerTable) -> InFile:
    return InFile(make, "SELECT entry FROM entries")


class SqliteSubject(InFile):
    refused = "no"

    def __init__(self) -> None:
        super().__init__(lambda path: SqliteTable(path, "events", WHOLE, create=False), "SELECT event FROM events")
        with closing(sqlite3.connect(self._path)) as file:
            file.execute("""CREATE TABLE events (event CHECK (event <> '"no"'))""")


class StorySubject(TableSubject):
    """The stand-in of simulated stories."""

    refused = {"n": -2}  # noqa: RUF012  # it is read alone

    def __init__(self) -> None:
        self.peer = TablePeer("near", Random(1))
        self.peer.poison = frozenset({-2})

    def store(self) -> TableStore[Any]:
        return StoryTable(self.peer)

    def rows(self) -> Sequence[object]:
        return [json.loads(row) for row in self.peer.rows]


test_of_stories = table_promises(StorySubject)
test_the_tutorials_own = table_promises(ledger)
test_sqlite = table_promises(SqliteSubject)


class RowsAtOnce(LedgerTable):
    """Rows are committed before the frontier."""

    def insert(self, rows: Sequence[object | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        found = super().insert(rows, apart=apart)
        self._file.commit()
        self._file.execute("BEGIN")
        return found


class FrontierOfItsOwn(LedgerTable):
    """The frontier is in another file, and written before the rows are there."""

    def _other(self) -> Any:
        other = sqlite3.connect(self._path + ".frontier", isolation_level=None)
        other.execute("CREATE TABLE IF NOT EXISTS frontiers (log, sink, state, PRIMARY KEY (log, sink))")
        return other

    def read(self, log: str, sink: str) -> Frontier | None:
        with closing(self._other()) as other:
            found = other.execute("SELECT state FROM frontiers WHERE log = ? AND sink = ?", (log, sink)).fetchone()
        return None if found is None else Frontier.decode(found[0])

    look = read

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        with closing(self._other()) as other:
            other.execute("INSERT OR REPLACE INTO frontiers VALUES (?, ?, ?)", (log, sink, frontier.encode()))


class NeverUndone(LedgerTable):
    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        with super().transaction():
            yield lambda: None


class OneFrontier(LedgerTable):
    """All sinks and logs have the same."""

    def read(self, log: str, sink: str) -> Frontier | None:
        return super().read("", "")

    look = read

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        super().write("", "", frontier)


class Remembers(LedgerTable):
    """It does not look at what others have written."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._known: dict[tuple[str, str], Frontier | None] = {}

    def read(self, log: str, sink: str) -> Frontier | None:
        if (log, sink) not in self._known:
            self._known[log, sink] = super().read(log, sink)
        return self._known[log, sink]

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self._known[log, sink] = frontier
        super().write(log, sink, frontier)


class StoresWhatFailed(LedgerTable):
    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        self.open()
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield lambda: self._file.rollback()
        finally:
            self._file.commit()


@pytest.mark.parametrize(
    ("broken", "scenario"),
    [
        (RowsAtOnce, "a_death_before_any_commit_loses_nothing"),
        (FrontierOfItsOwn, "a_death_before_any_commit_loses_nothing"),
        (NeverUndone, "rows_and_frontier_are_undone_together"),
        (StoresWhatFailed, "rows_and_frontier_are_undone_together"),
        (OneFrontier, "a_frontier_is_what_was_written_last"),
        (Remembers, "of_two_writers_one_stops_for_good"),
    ],
)
def test_a_broken_promise_is_found(broken: type[LedgerTable], scenario: str) -> None:
    with pytest.raises(AssertionError):
        check_table(scenario, ledger(broken))
