"""What a log takes on the disk for what it is given, looked at in its files while the process stands still."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from walflow.errors import Unusable
from walflow.wal import Gap
from walflow.wal.format import CHUNK_START, record_size
from walflow.wal.tools.inspect import look, records

LAST: Final = (1 << 63) - 1  # position
FEWEST: Final = 100  # records that say something
PAUSE: Final = 0.02  # seconds between two looks


def while_it_works(path: Path, pid: int, load: "subprocess.Popen[bytes]") -> Mapping[str, float] | None:
    """None if the load ended before there was anything to see: what is acked is soon gone."""
    while load.poll() is None:
        with _standing_still(pid):
            found = on_disk(path)
        if found is not None:
            return found
        time.sleep(PAUSE)
    return None


def on_disk(path: Path) -> Mapping[str, float] | None:
    """Of the records that are there, acked ones too; each chunk's header counts, and not what of it is unused. None
    for too few of them."""
    try:
        view = look(str(path))
        found = [record for record in records(view, 1, LAST) if not isinstance(record, Gap)]
    except Unusable:  # it is just being made
        return None
    if len(found) < FEWEST:
        return None
    payload = sum(len(record.payload) for record in found)
    size = sum(record_size(len(record.tag) + len(record.payload)) for record in found)
    return {
        "records": len(found),
        "events_per_record": sum(record.count for record in found) / len(found),
        "payload_per_record": payload / len(found),
        "tag_bytes": sum(len(record.tag) for record in found) / len(found),
        "log_per_payload": (size + len(view.chunks) * CHUNK_START) / payload,
    }


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
