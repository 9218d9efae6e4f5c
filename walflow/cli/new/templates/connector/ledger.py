"""A table in a file: each event is a row, once."""

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import Field

from walflow import Block, CodecUse, Connector, Guarantee, Inlet, Lossless, Outlet, Ports, Traits
from walflow.codecs import JSON
from walflow.frontier import Frontier
from walflow.tables import CannotUse, RowRefusal, run_table

TABLES = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS entries (entry);
CREATE TABLE IF NOT EXISTS frontiers (log, sink, state, PRIMARY KEY (log, sink));
"""


class Ledger(Connector):
    """A table `entries`, with each event as JSON."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, frontier=True)

    path: str = Field(min_length=1, description="The file.")

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink=Lossless("an event is acked once its row is committed and synced"), once=behind_log)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await run_table(inlet, LedgerTable(self.path))


class LedgerTable:
    """Rows, and beside them the frontier: what the table has of each log. One transaction changes both."""

    orders = False  # no row replaces another
    superseded = 0

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = None

    def open(self) -> None:
        if self._file is None:
            self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._file.executescript(TABLES)

    def row(self, value: object, meta: Mapping[str, object]) -> object:
        return JSON.encode(value).decode()

    def json_rows(self, block: Block) -> Sequence[object] | None:
        return [payload.decode() for payload in block.frames.payloads()]

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        try:
            self.open()
            self._file.execute("BEGIN IMMEDIATE")
            yield lambda: self._file.rollback()
            self._file.commit()
        except sqlite3.Error as error:
            self.close()
            raise CannotUse(str(error)) from error  # it is tried again
        except BaseException:
            self.close()  # which undoes what was not committed
            raise

    def insert(self, rows: Sequence[object | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        self._file.executemany("INSERT INTO entries VALUES (?)", [(row,) for row in rows if row is not None])
        return {}  # the table refuses nothing

    def read(self, log: str, sink: str) -> Frontier | None:
        found = self._file.execute("SELECT state FROM frontiers WHERE log = ? AND sink = ?", (log, sink)).fetchone()
        return None if found is None else Frontier.decode(found[0])

    look = read

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self._file.execute("INSERT OR REPLACE INTO frontiers VALUES (?, ?, ?)", (log, sink, frontier.encode()))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
