"""The table of a PostgreSQL server as a `TableStore`."""

import io
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import asyncpg
import msgspec

from connectors.postgres.schema import FoundTable, WantedTable, find, quoted
from connectors.postgres.server import PostgresServer, is_by_row, told
from connectors.postgres.text import NULL, cell, json_line, line
from walflow.frontier import Frontier
from walflow.tables import WHOLE, CannotUse, Column, NotARow, member_of

LINE: Final = re.compile(r"COPY .*?, line (\d+)")


class PostgresTable:
    """`gone`: the member of an event that says that its row is to be deleted; "": none does."""

    def __init__(self, server: PostgresServer, wanted: WantedTable, gone: str = "") -> None:
        self._server = server
        self._wanted = wanted
        self._gone = Column(gone, tuple(gone.split("."))) if gone else None
        self._keys = [number for number, column in enumerate(wanted.columns) if column.name in wanted.key]
        self._table: FoundTable | None = None

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
        if not self._server.is_open:
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

    def row(self, value: object) -> bytes:
        columns = self._found.columns
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

    def json_row(self, payload: bytes) -> bytes | None:
        return json_line(payload) if self._wanted.columns is WHOLE else None

    def insert(self, rows: Sequence[bytes | None], *, apart: bool) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        self._server.run(self._pieces(rows, 0, len(rows), refused))
        return refused

    async def _pieces(self, rows: Sequence[bytes | None], low: int, high: int, refused: dict[int, str]) -> None:
        """Stores `rows[low:high]`. The server says in which line of COPY a row is bad; else halves show it."""
        while low < high:
            error = await self._store(rows, low, high)
            if error is None:
                return
            bad = _place(error, rows, low, high)
            if bad is None:
                middle = (low + high) // 2
                await self._pieces(rows, low, middle, refused)
                low = middle
                continue
            await self._pieces(rows, low, bad, refused)  # COPY had taken them
            refused[bad] = f"{self._wanted.shown}: {told(error)}"
            low = bad + 1

    async def _store(self, rows: Sequence[bytes | None], low: int, high: int) -> asyncpg.PostgresError | None:
        """All of them, or none and why. Constraints that wait for the end of the transaction are looked at here,
        while a row can be told from the others."""
        connection = self._server.connection
        given = [(number, row) for number, row in enumerate(rows[low:high], low) if row is not None]
        if not given:
            return None
        await connection.execute("SAVEPOINT walflow")
        try:
            if self._keys:
                await self._merge(given)
            else:
                await self._copy(self._found.schema, self._found.name, self._names, b"".join(row for _, row in given))
            await connection.execute("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT walflow")
        except asyncpg.PostgresError as error:
            if not is_by_row(error):
                raise
            await connection.execute("ROLLBACK TO SAVEPOINT walflow")
            return error
        return None

    @property
    def _names(self) -> Sequence[str]:
        return [column.name for column in self._wanted.columns]

    async def _copy(self, schema: str | None, table: str, columns: Sequence[str], data: bytes) -> None:
        await self._server.connection.copy_to_table(
            table, source=io.BytesIO(data), columns=columns, schema_name=schema, format="text"
        )

    async def _merge(self, given: Sequence[tuple[int, bytes]]) -> None:
        """Of the rows with one key, the last one counts."""
        connection, table = self._server.connection, self._found.shown
        names = ", ".join(map(quoted, self._names))
        keys = ", ".join(map(quoted, self._wanted.key))
        same = " AND ".join(f"t.{quoted(key)} = last.{quoted(key)}" for key in self._wanted.key)
        changed = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in self._names if name not in self._wanted.key
        )
        await connection.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS walflow_rows ON COMMIT DROP AS "
            f"SELECT 0::bigint AS walflow_number, false AS walflow_gone, {names} FROM {table} WITH NO DATA; "
            "DELETE FROM pg_temp.walflow_rows"
        )
        data = b"".join(b"%d\t%b" % (number, row) for number, row in given)
        await self._copy(None, "walflow_rows", ["walflow_number", "walflow_gone", *self._names], data)
        await connection.execute(
            f"WITH last AS (SELECT DISTINCT ON ({keys}) * FROM pg_temp.walflow_rows ORDER BY {keys}, walflow_number "
            f"DESC), gone AS (DELETE FROM {table} t USING last WHERE last.walflow_gone AND {same}) INSERT INTO "
            f"{table} ({names}) SELECT {names} FROM last WHERE NOT walflow_gone ON CONFLICT ({keys}) DO "
            f"{f'UPDATE SET {changed}' if changed else 'NOTHING'}"
        )

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


def _place(error: asyncpg.PostgresError, rows: Sequence[bytes | None], low: int, high: int) -> int | None:
    """The number of the bad row, if it is known."""
    numbers = [number for number in range(low, high) if rows[number] is not None]
    if len(numbers) == 1:
        return numbers[0]
    found = LINE.search(error.context or "")
    at = int(found[1]) - 1 if found else -1
    return numbers[at] if 0 <= at < len(numbers) else None
