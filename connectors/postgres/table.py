"""The table of a PostgreSQL server as a `TableStore`."""

import re
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

import asyncpg
import msgspec

from connectors.postgres.named import NamedRow, NamedTables, names_tables, table_named_by
from connectors.postgres.schema import FoundTable, WantedTable, find, quoted
from connectors.postgres.server import PostgresServer, blames_table, is_by_row, told
from connectors.postgres.text import NULL, TableColumn, cell, json_lines, line
from walflow import Block
from walflow.frontier import Frontier
from walflow.tables import WHOLE, CannotUse, Column, NotARow, RowRefusal, member_of

COPY_BYTES: Final = 512 << 10  # sent at a time: a server reads one message whole before it looks at its rows
LINE: Final = re.compile(r"COPY .*?, line (\d+)")


PostgresRow = bytes | NamedRow


class RowsOf(NamedTuple):
    """Rows of one table, each with its number."""

    table: FoundTable
    numbers: Sequence[int]
    lines: Sequence[bytes]


class FailedRows(NamedTuple):
    """The row that the server blames is one of these numbers. `all_of_them`: it blames their table."""

    error: asyncpg.PostgresError
    numbers: Sequence[int]
    all_of_them: bool


class PostgresTable:
    """`gone`: the member of an event that says that its row is to be deleted; "": none does. `most`: other tables
    that events may name."""

    def __init__(self, server: PostgresServer, wanted: WantedTable, gone: str = "", most: int = 0) -> None:
        self._server = server
        self._wanted = wanted
        self._gone = Column(gone, tuple(gone.split("."))) if gone else None
        self._keys = [number for number, column in enumerate(wanted.columns) if column.name in wanted.key]
        self._table: FoundTable | None = None
        self.superseded = 0
        self._named = NamedTables(server, wanted, most)

    def __repr__(self) -> str:
        return f"<PostgresTable {self._wanted.shown}, {'open' if self._server.is_open else 'closed'}>"

    @property
    def orders(self) -> bool:
        return bool(self._wanted.key)

    @property
    def _found(self) -> FoundTable:
        assert self._table is not None
        return self._table

    def open(self) -> None:
        self._named.look_again()
        if not self._server.is_open:
            self._named.forget()
            self._server.close()
            self._server.run(self._open())

    async def _open(self) -> None:
        await self._server.connect()
        self._table = await find(self._server.connection, self._wanted)
        assert self._table is not None
        await self._server.connection.execute(self._table.frontier_statement())

    def probe(self) -> None:
        """Changes nothing. Raises CannotUse."""
        try:
            self._server.run(self._probe())
        finally:
            self._server.close()

    async def _probe(self) -> None:
        await self._server.connect()
        await find(self._server.connection, self._wanted, probe=True)

    # rows

    def row(self, value: object, meta: Mapping[str, object]) -> PostgresRow:
        name = table_named_by(meta)
        if not name or name == self._wanted.name:
            return self._line(value, self._found.columns)
        table = self._named.of(name)
        return NamedRow(table, self._line(value, table.columns))

    def _line(self, value: object, columns: Sequence[TableColumn]) -> bytes:
        cells = [
            cell(member_of(value, one), column) for one, column in zip(self._wanted.columns, columns, strict=True)
        ]
        for number in self._keys:
            if cells[number] == NULL:
                raise NotARow(
                    f"column {columns[number].name}: it is part of the key, and the event has no value for it"
                )
        return line([self._is_gone(value), *cells] if self._keys else cells)

    def _is_gone(self, value: object) -> str:
        if self._gone is None:
            return "false"
        gone = member_of(value, self._gone)
        if gone is not None and not isinstance(gone, bool):
            raise NotARow(f"{self._gone.name} is true or false, and says whether the row is to be deleted")
        return "true" if gone else "false"

    def json_rows(self, block: Block) -> Sequence[PostgresRow] | None:
        return json_lines(block.frames) if self._wanted.columns is WHOLE and not names_tables(block) else None

    def insert(self, rows: Sequence[PostgresRow | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        refused: dict[int, RowRefusal] = {}
        self.superseded = 0
        self._server.run(self._pieces([*rows], 0, len(rows), refused))
        return refused

    async def _pieces(
        self, rows: list[PostgresRow | None], low: int, high: int, refused: dict[int, RowRefusal]
    ) -> None:
        """Stores `rows[low:high]`. The server says in which line of COPY a row is bad; else halves show it."""
        while low < high:
            failed = await self._store(rows, low, high)
            if failed is None:
                return
            bad = None if failed.all_of_them else _place(failed)
            if failed.all_of_them:
                for number in failed.numbers:
                    refused[number] = self._refusal(rows[number], failed.error)
                    rows[number] = None
                continue
            if bad is None:
                middle = (low + high) // 2
                await self._pieces(rows, low, middle, refused)
                low = middle
                continue
            await self._pieces(rows, low, bad, refused)  # COPY had taken them
            refused[bad] = self._refusal(rows[bad], failed.error)
            low = bad + 1

    def _refusal(self, row: PostgresRow | None, error: asyncpg.PostgresError) -> RowRefusal:
        table = row.table.shown if isinstance(row, NamedRow) else self._wanted.shown
        return RowRefusal(f"{table}: {told(error)}", error.sqlstate or "")

    async def _store(self, rows: Sequence[PostgresRow | None], low: int, high: int) -> FailedRows | None:
        """All of them, or none and why. Constraints that wait for the end of the transaction are looked at here,
        while a row can be told from the others."""
        connection = self._server.connection
        superseded = self.superseded
        given = self._by_table(rows, low, high)
        if not given:
            return None
        await connection.execute("SAVEPOINT walflow")
        at: RowsOf | None = None
        try:
            for at in given:
                await self._put(at)
            at = given[0] if len(given) == 1 else None
            await connection.execute("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT walflow")
        except asyncpg.PostgresError as error:
            unfit = at is not None and at.table is not self._found and blames_table(error)
            if not unfit and not is_by_row(error):
                raise
            await connection.execute("ROLLBACK TO SAVEPOINT walflow")
            self.superseded = superseded
            numbers = [number for one in given for number in one.numbers] if at is None else at.numbers
            return FailedRows(error, numbers, unfit)
        return None

    def _by_table(self, rows: Sequence[PostgresRow | None], low: int, high: int) -> list[RowsOf]:
        some = rows[low:high]
        numbers: Sequence[int] = range(low, high)
        if None in some:
            numbers = [number for number, row in enumerate(some, low) if row is not None]
        given = [row for row in some if row is not None]
        if not given:
            return []
        if not self._named:
            return [RowsOf(self._found, numbers, cast("Sequence[bytes]", given))]
        found: dict[str, tuple[FoundTable, list[int], list[bytes]]] = {}
        for number, row in zip(numbers, given, strict=True):
            table, made = row if isinstance(row, NamedRow) else (self._found, row)
            _, of, lines = found.setdefault(table.name, (table, [], []))
            of.append(number)
            lines.append(made)
        return [RowsOf(*one) for one in found.values()]

    async def _put(self, rows: RowsOf) -> None:
        if self._keys:
            await self._merge(rows)
        else:
            await self._copy(rows.table.schema, rows.table.name, self._names, b"\n".join((*rows.lines, b"")))

    @property
    def _names(self) -> Sequence[str]:
        return [column.name for column in self._wanted.columns]

    async def _copy(self, schema: str | None, table: str, columns: Sequence[str], data: bytes) -> None:
        await self._server.connection.copy_to_table(
            table, source=_pieces(data), columns=columns, schema_name=schema, format="text"
        )

    async def _merge(self, rows: RowsOf) -> None:
        """Of the rows with one key, the last one counts. Where they have versions, that is the last of those with the
        highest one, and it counts if the row that is there has no higher one."""
        connection, table = self._server.connection, rows.table.shown
        names = ", ".join(map(quoted, self._names))
        keys = ", ".join(map(quoted, self._wanted.key))
        same = " AND ".join(f"t.{quoted(key)} = last.{quoted(key)}" for key in self._wanted.key)
        changed = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in self._names if name not in self._wanted.key
        )
        order, no_older, newer = "walflow_number DESC", "", ""
        if self._wanted.version:
            version = quoted(self._wanted.version)
            order = f"{version} DESC NULLS LAST, {order}"
            no_older = f" AND (t.{version} IS NULL OR last.{version} >= t.{version})"
            newer = f" WHERE t.{version} IS NULL OR excluded.{version} >= t.{version}"
        await connection.execute(
            f"DROP TABLE IF EXISTS pg_temp.walflow_rows; CREATE TEMP TABLE walflow_rows ON COMMIT DROP AS "
            f"SELECT 0::bigint AS walflow_number, false AS walflow_gone, {names} FROM {table} WITH NO DATA"
        )
        data = b"".join(b"%d\t%b\n" % one for one in zip(rows.numbers, rows.lines, strict=True))
        await self._copy(None, "walflow_rows", ["walflow_number", "walflow_gone", *self._names], data)
        # what its version keeps out counts as superseded
        counted = "put) + (SELECT count(*) FROM last WHERE walflow_gone" if newer else "last"
        taken = await connection.fetchval(
            f"WITH last AS (SELECT DISTINCT ON ({keys}) * FROM pg_temp.walflow_rows ORDER BY {keys}, {order}), "
            f"gone AS (DELETE FROM {table} t USING last WHERE last.walflow_gone AND {same}{no_older}), "
            f"put AS (INSERT INTO {table} AS t ({names}) SELECT {names} FROM last WHERE NOT walflow_gone "
            f"ON CONFLICT ({keys}) DO "
            f"{f'UPDATE SET {changed}{newer}' if changed else 'NOTHING'} RETURNING 1) "
            f"SELECT (SELECT count(*) FROM {counted})"
        )
        self.superseded += len(rows.numbers) - taken

    # the transaction, and the frontier's row

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        self.open()
        undone = False

        def undo() -> None:
            nonlocal undone
            undone = True

        try:
            self._server.run(self._server.begin())
            yield undo
            if undone:
                self._server.run(self._server.connection.execute("ROLLBACK"))
            else:
                self._server.run(self._server.commit())
        except BaseException:
            self._server.close()
            raise

    def look(self, log: str, sink: str) -> Frontier | None:
        self.open()
        return self._server.run(self._read(log, sink))

    def read(self, log: str, sink: str) -> Frontier | None:
        return self._server.run(self._read(log, sink, " FOR UPDATE"))

    async def _read(self, log: str, sink: str, locks: str = "") -> Frontier | None:
        found = await self._server.connection.fetchval(
            f"SELECT state FROM {self._found.frontier} WHERE log = $1 AND sink = $2{locks}", log, sink
        )
        if found is None:
            return None
        try:
            return Frontier.decode(found)
        except msgspec.MsgspecError as error:
            raise CannotUse(f"the row of {sink} in {self._found.frontier} is damaged: {error}") from error

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self._server.run(
            self._server.connection.execute(
                f"INSERT INTO {self._found.frontier} VALUES ($1, $2, $3) "
                "ON CONFLICT (log, sink) DO UPDATE SET state = excluded.state",
                log,
                sink,
                frontier.encode().decode(),
            )
        )

    def close(self) -> None:
        self._server.close()


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """asyncpg would read a file on another thread, and the wait for that takes longer than a small COPY."""
    for at in range(0, len(data), COPY_BYTES):
        yield data[at : at + COPY_BYTES]


def _place(failed: FailedRows) -> int | None:
    """The number of the bad row, if it is known."""
    if len(failed.numbers) == 1:
        return failed.numbers[0]
    found = LINE.search(failed.error.context or "")
    at = int(found[1]) - 1 if found else -1
    return failed.numbers[at] if 0 <= at < len(failed.numbers) else None
