from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from connectors.postgres.schema import FRONTIER, WantedTable
from connectors.postgres.server import PostgresServer
from connectors.postgres.table import PostgresTable
from walflow import CodecUse, Families, Guarantee, Inlet, Lossless, Need, Outlet, Ports, Risk, Traits
from walflow.net import Secret, credentials_written
from walflow.tables import TABLE_FAMILIES, WHOLE, Column, PoisonKey, columns_of, run_table

SCHEMES: Final = ("postgres", "postgresql")


class Postgres(PoisonKey):
    """A table of a PostgreSQL server, 12 or newer. Each event becomes a row; with `key`, it replaces the row of the
    same key.

    Behind a log, the position of each event is stored in the same transaction as its row, in the table
    `walflow_frontier` of the same schema. So each position of the log becomes a row once, whatever dies. An event
    that the server refuses (a constraint, a trigger, a value that the column's type cannot hold) leaves by err with
    the reason and its SQLSTATE; the others of its transaction are stored. Anything else (a deadlock, a server that is
    away, a disk that is full, a standby) is tried again.

    Members become the column's type as the server reads them from text. A record or an array becomes JSON, or the
    array of an array column. For a column of a time, a whole number is nanoseconds since 1970, any other number
    seconds."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, frontier=True)
    families: ClassVar[Families] = TABLE_FAMILIES

    dsn: str = Field(
        min_length=1,
        description="The server, as `postgresql://USER@HOST:5432/DATABASE?sslmode=verify-full`. Several hosts, "
        "separated by commas, are tried in turn until one takes writes. What is missing comes from the variables of "
        "libpq (PGHOST, PGSSLROOTCERT), passwords also from `.pgpass`.",
        examples=["postgresql://walflow@db.example.com/events"],
    )
    password: Secret | None = Field(default=None, description="The password.")
    table: str = Field(default="events", min_length=1, max_length=63, description="The table.")
    table_schema: str = Field(
        default="",
        max_length=63,
        alias="schema",
        description="Its schema. Default: the first one of the search path that has the table.",
    )
    columns: Mapping[str, str] | None = Field(
        default=None,
        min_length=1,
        description='Which member of the event each column gets, as `{"host": "host", "ms": "request.duration"}`. A '
        'member that is missing is NULL. With `create`, a type may follow: `{"ms": "request.duration::bigint"}`; '
        "without one it is text. Default: one column `event`, jsonb, with the event.",
    )
    key: Sequence[str] = Field(
        default=(),
        description="Columns that tell rows apart. An event then replaces the row with the same values in them, and "
        "events keep their order. The table needs a unique index of these columns.",
    )
    version: str = Field(
        default="",
        description="With `key`: a column that grows with each event of a key, as a time or a number. An event never "
        "replaces a row with a higher one: it is acked and dropped. So an old event may come late, as a letter or by "
        "a replay.",
    )
    delete: str = Field(
        default="", description="With `key`: a member of the event; where it is true, the row of this key is deleted."
    )
    max_tables: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many other tables events may name by `$postgres.table`. Each gets the same columns, in the "
        "same transaction. An event that names one more leaves by err, and so does one whose table is not there "
        "and cannot be made.",
    )
    create: bool = Field(default=True, description="Whether to make the table if it is missing.")
    add_columns: bool = Field(default=False, description="Whether to add columns that the table lacks.")

    @field_validator("dsn")
    @classmethod
    def _is_dsn(cls, dsn: str) -> str:
        if urlsplit(dsn).scheme not in SCHEMES:
            raise ValueError("a DSN begins with postgresql://")
        return dsn

    @field_validator("table")
    @classmethod
    def _is_not_ours(cls, table: str) -> str:
        if table == FRONTIER:
            raise ValueError(f"the table {FRONTIER} is not for events")
        return table

    @model_validator(mode="after")
    def _key_is_written(self) -> Self:
        names = {column.name for column in self._columns()}
        if missing := [name for name in self.key if name not in names]:
            raise ValueError(f"`key` names {', '.join(missing)}, which is not among the columns")
        if self.delete and not self.key:
            raise ValueError("`delete` needs `key`: which row is to be deleted")
        if self.version and not self.key:
            raise ValueError("`version` needs `key`: of which row")
        if self.version and (self.version not in names or self.version in self.key):
            raise ValueError(f"`version` names {self.version}, which is not among the columns beside the key")
        return self

    def overwrites(self) -> bool:
        """A row that was deleted has no version any more: an older event would make it again."""
        return bool(self.key) and (not self.version or bool(self.delete))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = credentials_written(password=self.password)
        if urlsplit(self.dsn.partition(",")[0]).password:
            warnings.append(
                Risk(
                    "credential", "a password stands in the dsn; name a file, env or credential in `password` instead"
                )
            )
        return Guarantee(
            sink=Lossless(
                "an event is acked once its row is committed, as safe as the server's `synchronous_commit` says, "
                "and `on` at least"
            ),
            once=behind_log,
            warnings=tuple(warnings),
            notes=(self.poison_note,),
        )

    def needs(self) -> Sequence[Need]:
        where = urlsplit(self.dsn).netloc.rpartition("@")[2]
        return (
            Need(
                f"store rows in the table {self._wanted().shown} of {where}", lambda: self._table().probe(), peer=True
            ),
        )

    def _columns(self) -> Sequence[Column]:
        return WHOLE if self.columns is None else columns_of(self.columns)

    def _wanted(self) -> WantedTable:
        return WantedTable(
            self.table,
            self.table_schema,
            self._columns(),
            tuple(self.key),
            self.version,
            create=self.create,
            add_columns=self.add_columns,
        )

    def _table(self) -> PostgresTable:
        secret = self.password
        password = None if secret is None else lambda: secret.read().get_secret_value()
        return PostgresTable(PostgresServer(self.dsn, password), self._wanted(), self.delete, self.max_tables)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await run_table(inlet, self._table(), poison_after=self.poison_seconds)
