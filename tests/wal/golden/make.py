"""Makes directories of logs, and notes beside each what it must be read as:

    python -m tests.wal.golden.make DIRECTORY

`v1/` was made so by the first code that had format version 1. It is never made again: what it holds is what every
later version has to read.
"""

import base64
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.wal.tools import EVERYTHING, chunk_files
from walflow import codecs, framing
from walflow.delivery.tag import Tags
from walflow.event import Block, Frames, StreamId
from walflow.receipt import Receipt
from walflow.wal import Log, LogOptions, Record

ARRIVED = 1_700_000_000_123_456_789
LINES = framing.make([("separate", {})])


class Maker:
    """One log, and what was appended to it."""

    def __init__(self, path: Path, chunk_size: int = 1024, max_chunks: int = 64) -> None:
        self.options = LogOptions(str(path), chunk_size, max_chunks)
        self.log = Log(self.options)
        self.records: list[Record] = []

    def append(self, *events: bytes, commit: bool = True) -> None:
        frames = Frames(LINES.join(events), len(events), LINES)
        receipt = Receipt(lambda receipt: None, len(events))
        stream = StreamId("read", 1, 3)
        meta = {"peer": "here", "raw": b"\0\xff"}
        block = Block(stream, frames, codecs.make("json"), receipt, ingest_ns=ARRIVED, meta=meta)
        tag = Tags().encode(block)
        position = self.log.append(tag, frames.data, len(events), ARRIVED)
        self.records.append(Record(position, len(events), tag, frames.data, ARRIVED))
        if commit:
            self.commit()
        receipt.ack()

    def commit(self) -> None:
        while (commit := self.log.commit()) is not None:
            commit.flush()
            self.log.committed(commit)

    def checkpoint(self) -> None:
        checkpoint = self.log.checkpoint()
        if checkpoint is not None:
            checkpoint.flush()
            self.log.checkpointed(checkpoint)

    def thirty(self) -> None:
        """Events in records of three."""
        for number in range(1, 31, 3):
            self.append(*(b'{"n":%d,"rest":"%s"}' % (number + i, b"y" * 40) for i in range(3)))


def clean(make: Maker) -> None:
    make.thirty()
    make.log.ack(1, 4)
    make.log.close()


def empty(make: Maker) -> None:
    make.log.close()


def torn(make: Maker) -> None:
    """The last commit's second record lacks its end. Nobody was promised either, and the first is delivered."""
    make.thirty()
    make.checkpoint()
    make.append(b"31", commit=False)
    make.append(b"32")
    make.log.abandon()
    cut = Path(chunk_files(make.options.path)[-1])
    cut.write_bytes(cut.read_bytes()[:-9])
    del make.records[-1]


def acks(make: Maker) -> None:
    make.thirty()
    for first, last in ((28, 29), (1, 2), (7, 9), (11, 11), (20, 24)):
        make.log.ack(first, last)
    make.log.close()


def damaged(make: Maker) -> None:
    """A flipped bit in the body of the second record, and nobody has noticed yet."""
    make.thirty()
    make.log.close()
    _flip(make, 0, 160 + 272 + 100)
    del make.records[1]


def recycled(make: Maker) -> None:
    """A chunk that is written over an older one, whose records still stand behind its end; and a spare."""
    while len(make.log.chunks) < 1 or make.log.chunks[-1].first < 1500 or make.log.durable % 100 < 60:
        make.append(*[b'"%04d%s"' % (len(make.records), b"r" * 190)] * 5)
        make.log.ack(1, make.log.durable - 10)
        make.checkpoint()
    make.log.close()
    held = make.log.chunks[0].first
    assert any(name.startswith("spare.") for name in os.listdir(make.options.path))
    assert b'"0' in Path(chunk_files(make.options.path)[-1]).read_bytes()[40000:]
    make.records = [record for record in make.records if record.position >= held]


def quarantine(make: Maker) -> None:
    """A damaged record was met, reported and passed over."""
    damaged(make)
    log = Log(make.options)
    log.reader().read(EVERYTHING)
    log.close()


def lanes(make: Maker) -> None:
    """Two lanes, of which one has two sinks. The marks in `v1/` are by the names of the lanes, as they were first."""
    make.log.part([["near", "far"], ["odd"]])
    make.thirty()
    both, odd = make.log.acked.lanes
    make.log.acked.add_of(both, 1, 20)
    make.log.acked.add_of(both, 25, 27)
    make.log.acked.add_of(odd, 1, 4)
    make.checkpoint()
    make.log.close()


def _flip(make: Maker, chunk: int, byte: int) -> None:
    path = Path(chunk_files(make.options.path)[chunk])
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


SHAPES: dict[Callable[[Maker], None], tuple[int, int]] = {recycled: (65536, 8)}
STORIES = (clean, empty, torn, acks, damaged, recycled, quarantine, lanes)


def read(path: Path) -> dict[str, object]:
    """What a start finds; it may change the directory."""
    log = Log(LogOptions(str(path)))
    try:
        reader = log.reader()
        left = [record.position for record in reader.read(EVERYTHING)]
        return {
            "uuid": log.uuid,
            "low": log.low,
            "ranges": [list(one) for one in log.acked.ranges],
            "durable": log.durable,
            "delivered": left,
            "recovery": log.recovery.lines(),
            "gaps": [str(gap) for gap in log.gaps],
        }
    finally:
        log.close()


def noted(records: list[Record]) -> list[dict[str, object]]:
    return [
        {
            **record._asdict(),
            "tag": base64.b64encode(record.tag).decode(),
            "payload": record.payload.decode(),
        }
        for record in records
    ]


def main(target: Path) -> None:
    target.mkdir()  # what is there stays
    for story in STORIES:
        path = target / story.__name__
        make = Maker(path, *SHAPES.get(story, (1024, 64)))
        story(make)
        os.unlink(path / "LOCK")
        copy = target / "copy"
        shutil.copytree(path, copy)
        known = {**read(copy), "records": noted(make.records)}
        shutil.rmtree(copy)
        (target / f"{story.__name__}.json").write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
