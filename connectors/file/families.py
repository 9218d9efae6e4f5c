"""The metrics of files."""

from typing import Final

from walflow import Families, Family

FILE: Final[Families] = {
    "followed_files": Family("gauge", "Files that the source follows now, open or closed."),
    "open_files": Family("gauge", "Followed files that are open now."),
    "unread_bytes": Family("gauge", "Bytes of followed files that were found and are not read yet."),
    "unended_bytes": Family(
        "gauge", "Bytes of followed files that were read and are held, because their event has no end yet."
    ),
    "damaged_files_total": Family(
        "counter", "Followed compressed files that are damaged, and were read as far as they could be."
    ),
    "disposed_files_total": Family(
        "counter", "Followed files that were deleted or moved (`delete`, `move_to`) after their last ack."
    ),
    "reread_bytes_total": Family(
        "counter", "Bytes of followed files that were read again because a sink failed their events."
    ),
    "truncated_files_total": Family(
        "counter", "How often a followed file was cut, or written anew, and read from its beginning."
    ),
    "skipped_events_total": Family(
        "counter", "Events that were in the sink's file already and were not written again."
    ),
}
