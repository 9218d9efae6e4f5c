"""A log between an inlet and an outlet: what the connectors `wal` and `spark` share.

    LogSink     blocks in -> Log.append, one commit for all that waited -> ack upstream
    LogSource   the lanes of a log
    Lane        blocks out to some sinks, the receipts back -> Mark.ack, redelivery
    ReadAhead   Log.Reader -> what a lane sends next
    Outcomes    the counters of what becomes of it
    Checkpoints what is acked -> the cursor, and space back
    Syncing     where acks do not wait for the disk: the sync that follows
    OneAtATime  the flushes of each of these two: one in the air, and again where the disk is full
    Arriving    what the log has already of logs and followed files upstream
    Recalling   what is not delivered yet, for a source that asks after a restart
    LetterBox   what a sink rejects -> kept for it, and sent to it again
    Dropping    where a full log does not stop its sources: the oldest chunk goes

All of it is plain calls on a `Scheduler`; the disk is touched on the scheduler's one thread, or in line while
commits are small and the disk is fast.
"""

from walflow.delivery.ages import BacklogAge
from walflow.delivery.answers import AnswerEvents, meta_of_one
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.drop_oldest import Dropping
from walflow.delivery.families import LETTER_FAMILIES, LOG_FAMILIES
from walflow.delivery.held import HeldEvents
from walflow.delivery.held_batches import HeldBatch, Resending
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.interval_sync import Syncing
from walflow.delivery.known_arrivals import Arriving, came_from
from walflow.delivery.letters import LetterBounds, LetterBox
from walflow.delivery.measures import BACKLOG_EVENTS, measure, measure_writer
from walflow.delivery.recalled_events import Recalling
from walflow.delivery.record_feed import RecordFeed
from walflow.delivery.retention import Retention, kept_bytes, kept_note
from walflow.delivery.sender import Sender
from walflow.delivery.source import LogSource
from walflow.delivery.tag import Tag, Tags
from walflow.delivery.writer import LogSink

__all__ = [
    "BACKLOG_EVENTS",
    "LETTER_FAMILIES",
    "LOG_FAMILIES",
    "AnswerEvents",
    "Arriving",
    "BacklogAge",
    "Checkpoints",
    "Dropping",
    "HeldBatch",
    "HeldEvents",
    "InFlight",
    "LetterBounds",
    "LetterBox",
    "LogSink",
    "LogSource",
    "Recalling",
    "RecordFeed",
    "Resending",
    "Retention",
    "SendLimits",
    "Sender",
    "Syncing",
    "Tag",
    "Tags",
    "came_from",
    "kept_bytes",
    "kept_note",
    "measure",
    "measure_writer",
    "meta_of_one",
]
