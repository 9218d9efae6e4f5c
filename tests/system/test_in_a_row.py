"""kill -9 of a daemon with two logs in a row: the second has each event of the first once,
and so has the file behind it."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.flows.builder import OUT, flow_of, pipeline, plain
from tests.system.daemon import running
from tests.waiting import wait_until
from walflow.codecs import JSON
from walflow.delivery.tag import Tags
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.wal import Log, LogOptions

FLOW = flow_of(
    "first -> even -> second -> out",
    even=pipeline('select {"id": event.id} from in where event.id % 4 != 0 into out;'),
    first=plain("wal", path="first"),
    second=plain("wal", path="second", chunk_size=262144, max_chunks=256),
    out=OUT,
)

BLOCK = 25


def fill(path: Path, count: int) -> None:
    """The first log has so many events to deliver."""
    log, tags = Log(LogOptions(str(path), sync="never")), Tags()
    for start in range(0, count, BLOCK):
        data = b"".join(b'{"id":%d,"of":"a machine"}\n' % number for number in range(start, start + BLOCK))
        receipt = Receipt(lambda _: None, BLOCK)
        frames = Frames(data, BLOCK, LINES)
        block = Block(StreamId("main::tcp", 7, 1), frames, JSON, receipt, ingest_ns=start, meta={})
        receipt.pending = 0
        log.append(tags.encode(block), data, BLOCK, start)
    while (commit := log.commit()) is not None:
        commit.flush()
        log.committed(commit)
    log.close()


def ids(file: Path) -> list[int]:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [json.loads(line)["id"] for line in whole.splitlines()]


def chunks(workdir: Path) -> set[str]:
    return {file.name for file in workdir.glob("second/*.wal")}


def goes_on(workdir: Path, before: set[str], size: int) -> bool:
    out = workdir / "out.log"
    return bool(chunks(workdir) - before) or (out.exists() and out.stat().st_size >= size)


def killed_again_and_again(workdir: Path, kills: int, count: int) -> None:
    flow, out = workdir / "row.troy", workdir / "out.log"
    flow.write_text(FLOW)
    fill(workdir / "first", count)
    wanted = [number for number in range(count) if number % 4]
    size = sum(len(b'{"id":%d}\n' % number) for number in wanted)
    for _ in range(kills):
        before = chunks(workdir)
        with running(flow, workdir):  # killed at its end
            # the second log appends, and the cursor of the first one is not written for 100 ms
            wait_until(partial(goes_on, workdir, before, size), "nothing is appended")
    with running(flow, workdir) as daemon:
        daemon.wait_for("knows what it has of logs and files upstream")
        wait_until(lambda: out.exists() and out.stat().st_size >= size, "events are missing")
        assert daemon.terminate() == 0
    assert ids(out) == wanted


def test_killed_twice(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 2, 20_000)


@pytest.mark.nightly
def test_killed_again_and_again(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 5, 100_000)
