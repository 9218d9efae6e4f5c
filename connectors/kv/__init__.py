"""A small key-value store in SQLite. `store` is the file, `connector` takes commands from metadata and answers
them."""

from connectors.kv.connector import Kv

__all__ = ["Kv"]
