"""A log's directory, looked at from outside: nothing is written, and no lock is taken, so a daemon may have it.

What a start would find is found by recovery itself, on a disk that reads what is there and only notes what it is
told to change. So nothing said here can differ from what a start does.
"""

from walflow.wal.inspect.findings import Finding, check, removed
from walflow.wal.inspect.kept import quarantined
from walflow.wal.inspect.onlooker import Onlooker
from walflow.wal.inspect.records import GONE, acked_by_cursor, backlog_bytes, records
from walflow.wal.inspect.view import View, holder, look
from walflow.wal.inspect.walk import Read

__all__ = [
    "GONE",
    "Finding",
    "Onlooker",
    "Read",
    "View",
    "acked_by_cursor",
    "backlog_bytes",
    "check",
    "holder",
    "look",
    "quarantined",
    "records",
    "removed",
]
