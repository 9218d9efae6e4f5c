"""Tables as sinks: events become rows, and the position of each is stored in the transaction of its row
(`walflow.frontier`). So each position of a log becomes a row once, whatever dies.

Read in this order:

    columns.py   which member of an event becomes which column
    store.py     `TableStore`, what a connector with a database writes: a transaction, rows, the frontier's row
    poison.py    an event whose row fails each time, although others pass
    work.py      `TableWork`, what goes into one transaction, and what becomes of its events

    await run_table(inlet, store)          # that is all of a sink

`connectors.sqlite` and `connectors.postgres` are the examples.
"""

from walflow.tables.columns import WHOLE, Column, NotARow, columns_of, member_of
from walflow.tables.poison import PoisonKey
from walflow.tables.store import CannotUse, RowEnds, RowRefusal, TableStore
from walflow.tables.work import TABLE_FAMILIES, TableWork, run_table

__all__ = [
    "TABLE_FAMILIES",
    "WHOLE",
    "CannotUse",
    "Column",
    "NotARow",
    "PoisonKey",
    "RowEnds",
    "RowRefusal",
    "TableStore",
    "TableWork",
    "columns_of",
    "member_of",
    "run_table",
]
