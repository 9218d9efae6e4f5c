"""The log engine: bytes at positions, durable before anyone hears of them, gone when everyone has acked.

It knows no codec and no event loop. docs/reference/wal-format.md has the format to the byte.
"""

from walflow.errors import DirectoryLocked, DiskFull, FailStop, LogFull, Unusable
from walflow.wal.commit import Commit, Sync
from walflow.wal.cursor import Checkpoint
from walflow.wal.format import Record
from walflow.wal.log import Dropped, Log, LogOptions
from walflow.wal.quarantine import Gap
from walflow.wal.reader import Reader
from walflow.wal.recovery import Recovery

__all__ = [
    "Checkpoint",
    "Commit",
    "DirectoryLocked",
    "DiskFull",
    "Dropped",
    "FailStop",
    "Gap",
    "Log",
    "LogFull",
    "LogOptions",
    "Reader",
    "Record",
    "Recovery",
    "Sync",
    "Unusable",
]
