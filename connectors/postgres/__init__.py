"""A table of a PostgreSQL server. `connector` is its configuration, `text` makes lines for COPY of events, `schema`
says what the table has, `server` is the connection, `table` stores rows. What goes into one transaction, and the
frontier of each log: `walflow.tables`."""

from walflow import WalflowError, lacks

try:
    from connectors.postgres.connector import Postgres
except ModuleNotFoundError as missing:
    if missing.name != "asyncpg":
        raise
    raise WalflowError(lacks("it", "postgres")) from missing

__all__ = ["Postgres"]
