"""What the table has, and what the flow needs of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from connectors.postgres.text import TableColumn
from walflow.tables import WHOLE, CannotUse, Column

if TYPE_CHECKING:
    from asyncpg import Connection, Record

FRONTIER: Final = "walflow_frontier"
LONGEST: Final = 63  # bytes of a name, unless the server was built otherwise

FIND: Final = """
SELECT c.oid, n.nspname AS schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
"""
COLUMNS: Final = """
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type,
  format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL) AS base, t.typcategory::text AS category,
  (a.attgenerated <> '' OR a.attidentity = 'a') AS made
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
"""
UNIQUE: Final = """
SELECT array_agg(a.attname::text) AS names FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0 : i.indnkeyatts - 1])
WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""


@dataclass(frozen=True, slots=True)
class WantedTable:
    """What the flow says of it. `schema` "": the first of the search path that has it. `key`: columns that tell rows
    apart; with it, an event replaces the row of the same key, if the row's `version` is no higher. `create`: makes
    it, and `add_columns` what it lacks."""

    name: str
    schema: str = ""
    columns: Sequence[Column] = WHOLE
    key: Sequence[str] = ()
    version: str = ""
    create: bool = False
    add_columns: bool = False

    @property
    def shown(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}" if self.schema else quoted(self.name)

    def create_statement(self) -> str:
        parts = [f"{quoted(column.name)} {type_of(column)}" for column in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self.key))})")
        return f"CREATE TABLE IF NOT EXISTS {self.shown} ({', '.join(parts)})"

    def add_statement(self, columns: Sequence[Column]) -> str:
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {quoted(column.name)} {type_of(column)}" for column in columns)
        return f"ALTER TABLE {self.shown} {added}"


@dataclass(frozen=True, slots=True)
class FoundTable:
    """In the database. `columns`: those that the flow writes, in its order."""

    schema: str
    name: str
    columns: Sequence[TableColumn]

    @property
    def shown(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def frontier(self) -> str:
        """Beside the table."""
        return f"{quoted(self.schema)}.{FRONTIER}"

    def frontier_statement(self) -> str:
        """Half of each page stays free: its rows change with each transaction, and in place."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.frontier} (log text NOT NULL, sink text NOT NULL, state text NOT "
            "NULL, PRIMARY KEY (log, sink)) WITH (fillfactor = 50)"
        )


async def find(connection: "Connection[Record]", wanted: WantedTable, *, probe: bool = False) -> FoundTable | None:
    """Makes what is missing, if the flow says so; with `probe`, changes nothing: None is a table that would be made.
    Raises CannotUse."""
    row = await connection.fetchrow(FIND, wanted.shown)
    if row is None:
        if not wanted.create:
            raise CannotUse(f"there is no table {wanted.shown}; make it: {wanted.create_statement()}")
        if probe:
            return None
        await connection.execute(wanted.create_statement())
        row = await connection.fetchrow(FIND, wanted.shown)
        if row is None:
            raise CannotUse(f"there is no table {wanted.shown} in the search path")
    has = await _columns(connection, row["oid"])
    missing = [column for column in wanted.columns if column.name not in has]
    if missing:
        names = ", ".join(column.name for column in missing)
        if not wanted.add_columns:
            raise CannotUse(
                f"the table {wanted.shown} has no column {names}; add it: {wanted.add_statement(missing)}"
            )
        if not probe:
            await connection.execute(wanted.add_statement(missing))
            has = await _columns(connection, row["oid"])
    if made := [column.name for column in wanted.columns if column.name in has and has[column.name].made]:
        raise CannotUse(
            f"the server alone makes the values of {', '.join(made)} in {wanted.shown}: leave it out of `columns`"
        )
    if wanted.key and not await _is_unique(connection, row["oid"], wanted.key):
        names = ", ".join(map(quoted, wanted.key))
        raise CannotUse(
            f"no unique index of {wanted.shown} has the columns of `key`; make one: "
            f"CREATE UNIQUE INDEX ON {wanted.shown} ({names})"
        )
    return FoundTable(row["schema"], wanted.name, [has[one.name] for one in wanted.columns if one.name in has])


async def _columns(connection: "Connection[Record]", oid: int) -> Mapping[str, TableColumn]:
    return {row["name"]: TableColumn(*row) for row in await connection.fetch(COLUMNS, oid)}


async def _is_unique(connection: "Connection[Record]", oid: int, key: Sequence[str]) -> bool:
    return any(set(row["names"]) == set(key) for row in await connection.fetch(UNIQUE, oid))


def type_of(column: Column) -> str:
    """Of a column that is made."""
    return column.type or ("text" if column.member else "jsonb")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
