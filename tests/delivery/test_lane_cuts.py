"""What a lane keeps of a record that failed."""

from types import SimpleNamespace
from typing import cast

from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.delivery.in_flight import InFlight
from walflow.delivery.lane import Lane
from walflow.delivery.log_events import CutRecord, LogEvents
from walflow.delivery.tag import Tags
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.wal.format import Record


def test_a_whole_record_is_kept_as_it_is_and_of_a_part_its_own_bytes_alone() -> None:
    tags = Tags()
    frames = Frames(b"1\n2\n3\n", 3, LINES)
    receipt = Receipt(lambda _: None, 3)
    block = Block(StreamId("f::source", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={})
    record = Record(5, 3, tags.encode(block), frames.data, 1)
    receipt.ack()
    lane = cast(Lane, SimpleNamespace(_tags=tags))

    def cut(source: LogEvents, first: int, last: int) -> LogEvents:
        return Lane.cut(lane, InFlight(first, last, source), first, last)

    assert cut(record, 5, 7) is record
    two = cut(record, 6, 7)
    assert isinstance(two, CutRecord)
    assert (two.position, two.frames.data, two.frames.count) == (6, b"2\n3\n", 2)
    assert cut(two, 6, 7) is two
    one = cut(two, 7, 7)
    assert isinstance(one, CutRecord)
    assert (one.position, one.frames.data, one.frames.count) == (7, b"3\n", 1)
