import os
import sqlite3
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pydantic import Field, field_validator

from connectors.sqlite.table import SqliteTable, columns_in
from walflow import CodecUse, Families, Guarantee, Inlet, Lossless, Need, Outlet, Ports, Traits
from walflow.files import writable_file
from walflow.tables import TABLE_FAMILIES, WHOLE, CannotUse, Column, PoisonKey, columns_of, run_table

RESERVED: Final = "walflow_"


class Sqlite(PoisonKey):
    """A table in a SQLite file. Each event becomes a row.

    Behind a log, the position of each event is stored in the same transaction as its row, in the table
    `walflow_frontier`. So each position of the log becomes a row once, whatever dies. An event that the table refuses
    (a constraint, a trigger, a number of more than 64 bits) leaves by err with the reason; the others of its
    transaction are stored.

    Other programs may read the file while walflow writes (it is in WAL mode), for example `sqlite3 FILE`. Do not move
    or replace the file while walflow runs."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, frontier=True)
    families: ClassVar[Families] = TABLE_FAMILIES

    path: str = Field(min_length=1, description="The file. It is made if it is missing; its directory is not.")
    table: str = Field(default="events", min_length=1, max_length=200, description="The table.")
    columns: Mapping[str, str] | None = Field(
        default=None,
        min_length=1,
        description='Which member of the event each column gets, as `{"host": "host", "ms": "request.duration"}`. A '
        "member that is missing is NULL; a record or an array is stored as JSON. Default: one column `event`, "
        "with the event as JSON.",
    )
    create: bool = Field(
        default=True,
        description="Whether to make the table if it is missing, with columns that take values of every kind.",
    )

    @field_validator("table")
    @classmethod
    def _is_not_ours(cls, table: str) -> str:
        if table.lower().startswith((RESERVED, "sqlite_")):
            raise ValueError(f"a table whose name begins with `{RESERVED}` or `sqlite_` is not for events")
        return table

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            sink=Lossless("an event is acked once its row is committed and synced (`synchronous = FULL`)"),
            once=behind_log,
            notes=(self.poison_note,),
        )

    def needs(self) -> Sequence[Need]:
        return (
            writable_file(self.path),
            Need(f"store rows in the table {self.table} of {self.path}", self._try_columns),
        )

    def _try_columns(self) -> None:
        """Raises CannotUse."""
        if not os.path.exists(self.path):
            if not self.create:
                raise CannotUse(f"{self.path} does not exist, and `create` is false")
            return
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            found = columns_in(connection, self.table)
        except sqlite3.Error as error:
            raise CannotUse(f"cannot read {self.path}: {error}") from error
        finally:
            connection.close()
        if not found and not self.create:
            raise CannotUse(f"{self.path} has no table {self.table}, and `create` is false")
        if found and (missing := [column.name for column in self._columns() if column.name.lower() not in found]):
            raise CannotUse(f"the table {self.table} in {self.path} has no column {', '.join(missing)}")

    def _columns(self) -> Sequence[Column]:
        return WHOLE if self.columns is None else columns_of(self.columns)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        table = SqliteTable(self.path, self.table, self._columns(), create=self.create)
        await run_table(inlet, table, poison_after=self.poison_seconds)
