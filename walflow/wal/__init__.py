"""The log engine. It stores bytes at positions. They are durable before they are acked, and deleted when all sinks
have acked them. It knows no codec and no event loop. docs/reference/wal-format.md describes every byte.

    log       append, commit, read, ack, checkpoint: begin here
    commit    what one flush writes and syncs
    chunk     a file of records; format has the bytes
    walk      from record to record of a chunk: all that reads files stands on it
    space     what the files take of the budget, and spares
    unsynced  what a relaxed log has written and not synced
    cursor    acked positions, in memory and on disk; marks: those of each lane
    reader    records in order; cache has the newest ones
    opening/  what a start finds and repairs
    tools/    what the commands `walflow wal ...` do
"""

from walflow.errors import DirectoryLocked, DiskFull, FailStop, LogFull, Unusable
from walflow.wal.commit import Commit, Sync
from walflow.wal.consumer_file import CONSUMERS, ConsumerFile
from walflow.wal.cursor import Checkpoint
from walflow.wal.directory import FULL, Directory
from walflow.wal.format import Record, record_size
from walflow.wal.log import Dropped, Log, LogOptions
from walflow.wal.marks import Mark
from walflow.wal.opening.recovery import Recovery
from walflow.wal.quarantine import Gap
from walflow.wal.range_reader import Loss, RangeReader, RangeScan, RecordPlace, RecordSlice, Trimmed
from walflow.wal.reader import Fetch, Reader

__all__ = [
    "CONSUMERS",
    "FULL",
    "Checkpoint",
    "Commit",
    "ConsumerFile",
    "Directory",
    "DirectoryLocked",
    "DiskFull",
    "Dropped",
    "FailStop",
    "Fetch",
    "Gap",
    "Log",
    "LogFull",
    "LogOptions",
    "Loss",
    "Mark",
    "RangeReader",
    "RangeScan",
    "Reader",
    "Record",
    "RecordPlace",
    "RecordSlice",
    "Recovery",
    "Sync",
    "Trimmed",
    "Unusable",
    "record_size",
]
