"""A log as the daemon writes it, and its bytes as the daemon sends them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from walflow import Block, Frames, Receipt, StreamId
from walflow.codecs import STRING
from walflow.delivery.tag import Tags
from walflow.event import Framing
from walflow.framing import LINES, WHOLE
from walflow.wal import Log, LogOptions
from walflow.wal.format import CHUNK_START

INGEST_NS = 1_700_000_000_123_456_789  # past: a log does not take a stamp that is ahead of its clock as it is
FAR = 1 << 60


class Given(NamedTuple):
    """One block. `keys`: the `$spark.key` of each event."""

    events: Sequence[bytes]
    framing: Framing = LINES
    key: object = None
    keys: Sequence[object] | None = None
    ingest_ns: int = INGEST_NS
    stream: int = 1

    @property
    def block(self) -> Block:
        frames = Frames(self.framing.join(self.events), len(self.events), self.framing)
        metas = None if self.keys is None else [_meta(key) for key in self.keys]
        block = Block(
            StreamId("tcp", 7, self.stream),
            frames,
            STRING,
            Receipt(lambda receipt: None, len(self.events)),
            ingest_ns=self.ingest_ns,
            meta=_meta(self.key),
            event_metas=metas,
        )
        block.receipt.ack()
        return block


def whole(event: bytes) -> Given:
    return Given([event], WHOLE)


def write(directory: Path, given: Sequence[Given]) -> str:
    """The uuid of the log."""
    log = _written(directory, given)
    log.close()
    return log.uuid


def records(directory: Path, given: Sequence[Given]) -> tuple[int, bytes]:
    """The seed, and all records as they lie on the disk."""
    log = _written(directory, given)
    chunk = log.chunks[0]
    data = (directory / chunk.name).read_bytes()[CHUNK_START : chunk.end]
    log.close()
    return chunk.seed, data


def _written(directory: Path, given: Sequence[Given]) -> Log:
    log, tags = Log(LogOptions(str(directory))), Tags()
    for one in given:
        block = one.block
        log.append(tags.encode(block), block.frames.data, block.frames.count, block.ingest_ns, block)
    while (commit := log.commit()) is not None:
        commit.flush()
        log.committed(commit)
    return log


def _meta(key: object) -> Mapping[str, object]:
    return {} if key is None else {"spark": {"key": key}}
