"""Logs as a `wal` connector writes them, and `walflow wal` on them."""

from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.wal.tools import QuickDisk, commit
from walflow import codecs, framing
from walflow.cli import app
from walflow.delivery.tag import Tags
from walflow.event import Block, Frames, StreamId
from walflow.receipt import Receipt
from walflow.wal import Log, LogOptions

LINES = framing.make([("separate", {})])
FIRST = f"{1:020d}.wal"
ARRIVED = 1_700_000_000_123_456_789


def run(*arguments: str | Path, answer: str | None = None) -> Result:
    return CliRunner().invoke(app(), ["wal", *map(str, arguments)], input=answer, env={"COLUMNS": "200"})


def append(log: Log, *events: bytes, codec: str = "json", metas: list[dict[str, object]] | None = None) -> None:
    """One record, as a `wal` connector writes it."""
    receipt = Receipt(lambda receipt: None, len(events))
    frames = Frames(LINES.join(events), len(events), LINES)
    stream = StreamId("read", 1, 3)
    block = Block(
        stream, frames, codecs.make(codec), receipt, ingest_ns=ARRIVED, meta={"peer": "here"}, event_metas=metas
    )
    log.append(Tags().encode(block), frames.data, len(events), ARRIVED)
    commit(log)
    receipt.ack()


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def left(path: Path, lanes: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """What each lane of a flow would still get."""
    log = Log(LogOptions(str(path)), QuickDisk())
    marks = dict(zip(lanes, log.part([lane.split("+") for lane in lanes]), strict=True))
    found = {name: list(mark.unacked(1, log.durable)) for name, mark in marks.items()}
    log.abandon()
    return found


def inventory(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() if _readable(one) else b"" for one in path.rglob("*")}


def _readable(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
