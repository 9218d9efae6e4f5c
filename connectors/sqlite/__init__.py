"""A table in a SQLite file. `connector` is its configuration, `rows` makes rows of events, `table` is the file, `sink` says what goes into
one transaction, with the frontier of each log (`walflow.frontier`)."""

from connectors.sqlite.connector import Sqlite

__all__ = ["Sqlite"]
