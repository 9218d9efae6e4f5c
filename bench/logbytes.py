"""What a log takes on the disk for what it is given, looked at in its files after the process was killed."""

from collections.abc import Mapping
from pathlib import Path

from walflow.errors import Unusable
from walflow.wal import Gap
from walflow.wal.format import CHUNK_START, record_size
from walflow.wal.inspect import look, records

MOST: int = (1 << 63) - 1


def on_disk(path: Path) -> Mapping[str, float]:
    """Of the records that are there, acked ones too; each chunk's header counts, and not what of it is unused.
    Raises Unusable."""
    view = look(str(path))
    found = [record for record in records(view, 1, MOST) if not isinstance(record, Gap)]
    if not found:
        raise Unusable(f"{path} has no records left")
    payload = sum(len(record.payload) for record in found)
    bytes_taken = sum(record_size(len(record.tag) + len(record.payload)) for record in found)
    return {
        "records": len(found),
        "events_per_record": sum(record.count for record in found) / len(found),
        "payload_per_record": payload / len(found),
        "tag_bytes": sum(len(record.tag) for record in found) / len(found),
        "log_per_payload": (bytes_taken + len(view.chunks) * CHUNK_START) / payload,
    }
