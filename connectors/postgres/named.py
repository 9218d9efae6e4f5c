"""Tables that events name, beside the flow's own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import asyncpg

from connectors.postgres.schema import FRONTIER, LONGEST, FoundTable, WantedTable, find, quoted
from connectors.postgres.server import PostgresServer, blames_table, told
from walflow import Block
from walflow.tables import CannotUse, NotARow


class NamedRow(NamedTuple):
    """A line for COPY of an event that names its table."""

    table: FoundTable
    line: bytes


class NamedTables:
    """At most `most` in one run: each is looked up and kept. A table that the server or the flow has no use for costs
    the events that name it, and no others."""

    def __init__(self, server: PostgresServer, wanted: WantedTable, most: int) -> None:
        self._server = server
        self._wanted = wanted
        self._most = most
        self._names: set[str] = set()
        self._found: dict[str, FoundTable] = {}
        self._unfit: dict[str, str] = {}  # why, until the next look

    def __len__(self) -> int:
        """How many events have named in this run."""
        return len(self._names)

    def look_again(self) -> None:
        """At tables that were missing: they may be there now."""
        self._unfit.clear()

    def forget(self) -> None:
        """The connection is another one."""
        self._found.clear()

    def of(self, name: str) -> FoundTable:
        """Raises NotARow, or CannotUse if the server is away."""
        found = self._found.get(name)
        if found is not None:
            return found
        why = self._unfit.get(name) or self._judged(name)
        if not why:
            looked_up = self._server.run(self._look_up(name))
            if not isinstance(looked_up, str):
                self._names.add(name)
                self._found[name] = looked_up
                return looked_up
            why = self._unfit[name] = looked_up
        raise NotARow(why)

    def _judged(self, name: str) -> str:
        """Why no event may name it."""
        if "\0" in name or not 0 < len(name.encode(errors="replace")) <= LONGEST:
            return f"`$postgres.table`: a table's name has 1 to {LONGEST} bytes, and no NUL"
        if name == FRONTIER:
            return f"`$postgres.table`: the table {FRONTIER} is not for events"
        if name not in self._names and len(self._names) >= self._most:
            return f"the event names the table {quoted(name)}, and `max_tables` is {self._most}"
        return ""

    async def _look_up(self, name: str) -> FoundTable | str:
        try:
            found = await find(self._server.connection, replace(self._wanted, name=name))
        except CannotUse as error:
            return str(error)
        except asyncpg.PostgresError as error:
            if not blames_table(error):
                raise
            return f"the table {quoted(name)}: {told(error)}"
        assert found is not None
        return found


def table_named_by(meta: Mapping[str, object]) -> str:
    """ "": the event names none. Raises NotARow."""
    own = meta.get("postgres")
    if own is None:
        return ""
    name = cast("Mapping[str, object]", own).get("table") if isinstance(own, Mapping) else own
    if name is None:
        return ""
    if not isinstance(name, str) or not name:
        raise NotARow("`$postgres.table` is the name of a table")
    return name


def names_tables(block: Block) -> bool:
    return "postgres" in block.meta or any("postgres" in meta for meta in block.event_metas or ())
