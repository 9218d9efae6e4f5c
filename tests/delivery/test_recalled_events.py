"""What a log tells a source of its events that were not delivered."""

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.wal.tools import checkpoint, commit
from walflow import Block, Frames, Recalled, Receipt, StreamId
from walflow.codecs import JSON
from walflow.delivery.recalled_events import Recalling, recall
from walflow.delivery.tag import Tags
from walflow.errors import DiskFull, FailStop
from walflow.framing import LINES
from walflow.testing import Fatal, MemoryInlet, MemoryOutlet, SimulatedDisk, VirtualScheduler
from walflow.wal import Log, LogOptions

WANTED = {"f::http": ("http_server", "key")}


def put(log: Log, *keys: object, source: str = "f::http", each: bool = False, size: int = 0, at: int = 5) -> int:
    """A block of as many events as keys, all under the first of them or, with `each`, each under its own. Its first
    position."""
    data = b"".join(b'"%s"\n' % (b"x" * size) for _ in keys)
    metas = [{"http_server": {"key": key}} for key in keys]
    block = Block(
        StreamId(source, 1, 1),
        Frames(data, len(keys), LINES),
        JSON,
        Receipt(lambda _: None, len(keys)),
        ingest_ns=at,
        meta={"other": 1} if each else metas[0],
        event_metas=metas if each else None,
    )
    position = log.append(Tags().encode(block), data, len(keys), at)
    block.receipt.ack()
    commit(log)
    return position


def reopened(log: Log, *, chunk_size: int = 1 << 20) -> Log:
    log.close()
    return Log(LogOptions(log.directory.path, chunk_size))


def test_what_is_not_acked_is_told_with_its_values(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path / "log"), 1 << 20))
    gone = put(log, "gone", "gone")
    put(log, "a", "a", "a", at=7)
    put(log, "b", "c", each=True, at=8)
    put(log, None)
    put(log, "another's", source="f::other")
    log.ack(gone, gone + 1)
    checkpoint(log)
    log = reopened(log)
    assert list(recall(log, WANTED)["f::http"]) == [Recalled("a", 3, 7), Recalled("b", 1, 8), Recalled("c", 1, 8)]
    log.close()


def test_only_the_newest_files_are_read(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path / "log"), 4096))
    for number in range(8):
        put(log, number, size=3000)
    log = reopened(log, chunk_size=4096)
    assert log.newest(1) == log.chunks[-1].first
    assert log.newest(5000) == log.chunks[-2].first
    assert log.newest(1 << 30) == log.low + 1
    log.close()


def test_what_a_power_cut_may_still_take_is_not_told() -> None:
    """The disk failed to write it, and the next start has no room for a copy of what the page cache has."""
    disk = SimulatedDisk()
    log = Log(LogOptions("/log", 4096), disk)
    put(log, "safe")
    checkpoint(log)
    disk.fault = lambda operation, path: errno.EIO if operation == "sync" and path.endswith(".wal") else None
    with pytest.raises(FailStop):
        put(log, "unsafe")
    disk.fault = None
    disk.after_kill(writeback_fails=True)
    disk.capacity = disk.used()
    log = Log(LogOptions("/log", 4096), disk)
    assert (log.durable, log.unsafe_from) == (2, 2)
    before = len(disk._fds)
    assert list(recall(log, WANTED)["f::http"]) == [Recalled("safe", 1, 5)]
    assert len(disk._fds) == before
    log.abandon()


def asked(wanted: Mapping[str, tuple[str, str]] = WANTED) -> MemoryInlet:
    inlet = MemoryInlet(VirtualScheduler())
    inlet.upstream = inlet.upstream._replace(recalled_by=wanted)
    return inlet


def test_it_is_needed_where_a_source_asks_and_events_are_left(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path / "log"), 1 << 20))
    assert not Recalling(log, asked()).needed
    position = put(log, "a")
    log = reopened(log)
    assert Recalling(log, asked()).needed
    assert not Recalling(log, asked({})).needed
    log.ack(position, position)
    checkpoint(log)
    log = reopened(log)
    assert not Recalling(log, asked()).needed
    log.close()


def test_each_source_is_told_what_was_read(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path / "log"), 1 << 20))
    put(log, "a")
    put(log, "b", source="f::other")
    inlet, out = asked({**WANTED, "f::other": ("http_server", "key")}), MemoryOutlet(VirtualScheduler())
    recalling = Recalling(log, inlet)
    recalling.read()
    recalling.tell(out, None)
    told = {source: list(events) for source, events in inlet.remembered.items()}
    assert told == {"f::http": [Recalled("a", 1, 5)], "f::other": [Recalled("b", 1, 5)]}
    assert not out.logged
    log.close()


def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    """A file that no descriptor is left for is read by no one now; a disk that has failed ends the process."""
    log = Log(LogOptions(str(tmp_path / "log"), 1 << 20))
    inlet, out = asked(), MemoryOutlet(VirtualScheduler())
    Recalling(log, inlet).tell(out, DiskFull("no descriptor is left"))
    assert [line["event"] for line in out.logged] == ["not recalled for its sources"]
    assert not inlet.remembered
    with pytest.raises(Fatal):
        Recalling(log, inlet).tell(out, FailStop("the disk"))
    log.close()
