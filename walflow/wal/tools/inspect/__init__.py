"""Looks at a log's directory from outside. Nothing is written and no lock is taken, so a daemon may use the log.

It runs the real recovery, on a disk that only reads and notes the changes. So its result cannot differ from what a
start does.
"""

from walflow.wal.tools.inspect.findings import Finding, check, removed
from walflow.wal.tools.inspect.kept import quarantined
from walflow.wal.tools.inspect.moment import position_at
from walflow.wal.tools.inspect.onlooker import Onlooker
from walflow.wal.tools.inspect.records import GONE, acked_by_cursor, backlog_bytes, records
from walflow.wal.tools.inspect.view import NoLogYet, View, holder, look
from walflow.wal.tools.inspect.walk import Read

__all__ = [
    "GONE",
    "Finding",
    "NoLogYet",
    "Onlooker",
    "Read",
    "View",
    "acked_by_cursor",
    "backlog_bytes",
    "check",
    "holder",
    "look",
    "position_at",
    "quarantined",
    "records",
    "removed",
]
