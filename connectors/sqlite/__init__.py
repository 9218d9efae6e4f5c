"""A table in a SQLite file. `connector` is its configuration, `rows` makes rows of events, `table` is the file. What
goes into one transaction, and the frontier of each log: `walflow.tables`."""

from connectors.sqlite.connector import Sqlite

__all__ = ["Sqlite"]
