"""The SQLite file: a table of events, and the table `walflow_frontier`. All of it blocks."""

import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from connectors.sqlite.rows import Cell, row_of
from walflow import Block
from walflow.frontier import Frontier
from walflow.tables import WHOLE, CannotUse, Column, RowEnds, RowRefusal

BUSY: Final = 5.0  # seconds that another process may hold the file
FRONTIERS: Final = (
    "CREATE TABLE IF NOT EXISTS walflow_frontier "
    "(log TEXT NOT NULL, sink TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (log, sink)) WITHOUT ROWID"
)


Row = tuple[Cell, ...]


class SqliteTable:
    """A `TableStore`. `create`: makes the table if it is missing.
    A connection is opened when it is needed, and closed after any error."""

    orders = False
    superseded = 0

    def __init__(self, path: str, table: str, columns: Sequence[Column], *, create: bool) -> None:
        self._path = path
        self._table = table
        self._columns = columns
        self._create = create
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)

    def __repr__(self) -> str:
        return f"<SqliteTable {self._table} in {self._path}, {'open' if self._connection is not None else 'closed'}>"

    def open(self) -> None:
        try:
            self._opened()
        except (sqlite3.Error, OSError) as error:
            raise CannotUse(f"cannot write {self._path}: {error}") from error

    def row(self, value: object, meta: Mapping[str, object]) -> Row:
        return row_of(value, self._columns)

    def json_rows(self, block: Block) -> Sequence[Row] | None:
        if self._columns is not WHOLE:
            return None
        return [(payload.decode(),) for payload in block.frames.payloads()]

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        try:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            yield lambda: connection.rollback()
            if not connection.in_transaction:
                return
            connection.execute("COMMIT")
            if _identity(self._path) != self._identity:
                raise CannotUse(f"{self._path} was moved, replaced or removed while it was in use")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise CannotUse(f"cannot write {self._path}: {error}") from error
        except BaseException:
            self.close()
            raise

    def insert(self, rows: Sequence[Row | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        connection = self._opened()
        names = ", ".join(map(_quoted, (column.name for column in self._columns)))
        text = f"INSERT INTO {_quoted(self._table)} ({names}) VALUES ({', '.join('?' * len(self._columns))})"
        if not apart:
            connection.execute("SAVEPOINT batch")
            try:
                connection.executemany(text, [row for row in rows if row is not None])
            except sqlite3.Error as error:
                if not _is_by_row(error):
                    raise
                if not connection.in_transaction:
                    raise RowEnds(None, self._refusal(error)) from error
                connection.execute("ROLLBACK TO batch")
            else:
                return {}
        return self._one_by_one(connection, text, rows)

    def _refusal(self, error: sqlite3.Error) -> RowRefusal:
        return RowRefusal(f"{self._table}: {error} ({error.sqlite_errorname})", error.sqlite_errorname)

    def _one_by_one(
        self, connection: sqlite3.Connection, text: str, rows: Sequence[Row | None]
    ) -> Mapping[int, RowRefusal]:
        refused: dict[int, RowRefusal] = {}
        unclear: sqlite3.Error | None = None
        stored = False
        for number, row in enumerate(rows):
            if row is None:
                continue
            try:
                connection.execute(text, row)
                stored = True
            except sqlite3.Error as error:
                if not _is_by_row(error):
                    raise
                if not connection.in_transaction:
                    raise RowEnds(number, self._refusal(error)) from error
                refused[number] = self._refusal(error)
                unclear = error if isinstance(error, sqlite3.OperationalError) else unclear
        if unclear is not None and not stored:
            raise unclear  # the table's fault as well as the row's: what else gets through decides
        return refused

    def read(self, log: str, sink: str) -> Frontier | None:
        found = (
            self._opened()
            .execute("SELECT state FROM walflow_frontier WHERE log = ? AND sink = ?", (log, sink))
            .fetchone()
        )
        if found is None:
            return None
        try:
            return Frontier.decode(found[0])
        except msgspec.MsgspecError as error:
            raise CannotUse(f"{self._path}: the row of {sink} in walflow_frontier is damaged: {error}") from error

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        """In a transaction that has read it."""
        self._opened().execute(
            "INSERT OR REPLACE INTO walflow_frontier VALUES (?, ?, ?)", (log, sink, frontier.encode().decode())
        )

    def look(self, log: str, sink: str) -> Frontier | None:
        """Changes nothing. Raises CannotUse."""
        try:
            return self.read(log, sink)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise CannotUse(f"cannot read {self._path}: {error}") from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()  # what was not committed is not there

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self._path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                self._begin(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if self._create:
            names = ", ".join(map(_quoted, (column.name for column in self._columns)))
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(self._table)} ({names})")
        connection.execute(FRONTIERS)
        found = columns_in(connection, self._table)
        if not found:
            raise CannotUse(f"{self._path} has no table {self._table}")
        if missing := [column.name for column in self._columns if column.name.lower() not in found]:
            raise CannotUse(f"the table {self._table} in {self._path} has no column {', '.join(missing)}")
        self._identity = _identity(self._path)


def _is_by_row(error: sqlite3.Error) -> bool:
    """SQLITE_ERROR is what an expression of the table says, of a generated column or a trigger,
    and also that there is no table."""
    return (
        isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError))
        or error.sqlite_errorcode == sqlite3.SQLITE_ERROR
    )


def columns_in(connection: sqlite3.Connection, table: str) -> set[str]:
    """In lower case: SQLite does not tell it apart. Empty: there is no such table."""
    return {str(name).lower() for _, name, *_ in connection.execute(f"PRAGMA table_info({_quoted(table)})")}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0)
    return found.st_dev, found.st_ino
