"""The metrics of a log."""

from typing import Final

from walflow.families import Families, Family

LOG_FAMILIES: Final[Families] = {
    "wal_appended_events_total": Family("counter", "Events appended to the log and made durable since the start."),
    "wal_appended_bytes_total": Family("counter", "Bytes appended to the log, with headers."),
    "wal_acked_events_total": Family(
        "counter", "Events of the log that every sink has acked, or that left by the err port and were acked there."
    ),
    "wal_acked_bytes_total": Family("counter", "Bytes of acked events, without headers."),
    "wal_failed_events_total": Family("counter", "Events that a sink failed after the log had sent them."),
    "wal_failed_bytes_total": Family("counter", "Bytes of failed events, without headers."),
    "wal_redelivered_bytes_total": Family("counter", "Bytes of redelivered events, without headers."),
    "wal_rejected_bytes_total": Family("counter", "Bytes of the events that left by the log's err port."),
    "wal_quarantined_bytes_total": Family(
        "counter", "Bytes of the log that could not be read any more and lie in quarantine/."
    ),
    "wal_known_events_total": Family(
        "counter",
        "Events that a log upstream sent again and this log had already, so they were acked and not appended.",
    ),
    "wal_dropped_events_total": Family(
        "counter",
        'Events that were dropped before they were acked because the log was full, with on_full = "drop_oldest".',
    ),
    "wal_dropped_bytes_total": Family(
        "counter", "Bytes of dropped events in the log, computed from their share of a file."
    ),
    "wal_dropped_events": Family("gauge", "Events dropped since the log was made, also before the last restart."),
    "wal_dropped_bytes": Family(
        "gauge", "Bytes of events dropped since the log was made, also before the last restart."
    ),
    "wal_unsynced_events": Family(
        "gauge",
        'Events that are acked to their sources and not synced. A power cut may take them. 0 with sync = "always".',
    ),
    "wal_unsynced_seconds": Family("gauge", "Age of the oldest unsynced event: seconds since its ack to the source."),
    "wal_full": Family("gauge", "1 while the log's budget is used, or almost used."),
    "wal_disk_full": Family("gauge", "1 while the disk is full, or no file can be opened."),
    "wal_cannot_read": Family(
        "gauge",
        "Lanes for which the disk fails to read the next events. The read is tried again; no event is given up.",
    ),
    "wal_read_failures_total": Family("counter", "Reads of the log that the disk failed."),
    "wal_sync_seconds": Family(
        "histogram", 'Time to write and sync a commit; with sync = "interval", time of a sync.'
    ),
    "wal_commit_bytes": Family("histogram", "Bytes of a commit: the records that one sync covers."),
    "wal_low_position": Family("gauge", "Committed offset: every event up to this position is acked by every sink."),
    "wal_durable_position": Family(
        "gauge", "Every event up to this position is on disk, or written if acks do not wait for the disk."
    ),
    "wal_next_position": Family("gauge", "The position (offset) that the next event gets."),
    "wal_backlog_events": Family("gauge", "Events that are durable and that not every sink has acked."),
    "wal_backlog_bytes": Family(
        "gauge", "Bytes of the log after the last position up to which all events are acked."
    ),
    "wal_lane_backlog_events": Family(
        "gauge",
        "Events that are durable and not acked by each sink of the lane. Only of a log with several.",
        ("lane",),
    ),
    "wal_lane_backlog_bytes": Family(
        "gauge", "Bytes of the log after the last position up to which the lane has acked all events.", ("lane",)
    ),
    "wal_lane_oldest_seconds": Family(
        "gauge",
        (
            "Age of the oldest event that not each sink of the lane has acked, to one second, from when it was "
            "received. 0: all are acked."
        ),
        ("lane",),
    ),
    "wal_lane_dropped_events": Family(
        "gauge",
        (
            "Events dropped since the log was opened, and not acked by each sink of the lane. "
            'With on_full = "drop_oldest".'
        ),
        ("lane",),
    ),
    "wal_oldest_seconds": Family(
        "gauge", "Age of the oldest event that is not acked, to one second. 0: all are acked."
    ),
    "wal_clock_lead_seconds": Family(
        "gauge",
        "How far the time by which the log stamps its events is ahead of the wall clock, because that was set back. "
        "Windows and ages are right all the same.",
    ),
    "wal_chunks": Family("gauge", "Chunks (segments) of the log: files with records."),
    "wal_used_bytes": Family(
        "gauge", "Bytes of the log that count in its budget, with preallocated and spare files."
    ),
    "wal_history_bytes": Family(
        "gauge", "Bytes of the log that are acked and kept (`retain`). They do not count in its budget."
    ),
    "wal_history_seconds": Family("gauge", "Age of the oldest event that is kept. 0: none is."),
    "wal_history_given_up_total": Family(
        "counter", "Files of the log's history that were deleted early, because the disk was full."
    ),
    "wal_budget_bytes": Family("gauge", "The log's budget: bytes that it may take on disk, chunk_size x max_chunks."),
    "wal_fill_ratio": Family(
        "gauge", "Share of the log's budget that records take, 0 to 1. The breaker triggers at 0.9."
    ),
    "wal_full_in_seconds": Family(
        "gauge",
        (
            "Seconds until the log is full, if what waits in it grows as it did in the last minute. +Inf: "
            "it does not grow."
        ),
    ),
    "wal_recovery_seconds": Family("gauge", "Seconds that opening the log took."),
    "quarantined_events_total": Family(
        "counter", "Events that a log could not read any more. Their bytes are in its quarantine directory."
    ),
}

LETTER_FAMILIES: Final[Families] = {
    "wal_letters_kept_total": Family("counter", "Rejected events that were kept as letters of their sink."),
    "wal_letters_given_up_total": Family(
        "counter", "Letters that were given up because their bound was reached, or as the disk was full."
    ),
    "wal_letters": Family("gauge", "Letters: events that a sink has rejected and that are kept for it."),
    "wal_letters_going": Family("gauge", "Letters that were sent to their sink again and have no outcome yet."),
    "wal_letters_disk_bytes": Family("gauge", "Bytes on disk of the letters of a sink."),
}
