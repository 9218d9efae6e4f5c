"""What a lane sends: the records of its log, and what was cut out of one."""

from typing import NamedTuple

from walflow.delivery.tag import Tag
from walflow.event import Frames
from walflow.wal import Record


class CutRecord(NamedTuple):
    """Events of a record that failed, without the rest of it."""

    position: int
    frames: Frames
    tag: Tag
    ingest_ns: int


LogEvents = Record | CutRecord
