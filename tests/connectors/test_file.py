"""The connector as a flow has it: its configuration, what it promises, and its run."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from aiofiles.threadpool.binary import AsyncFileIO
from pydantic import ValidationError

from connectors.file import File
from connectors.file.file_source import CannotRead
from walflow.contract import Claim, CodecUse, Guarantee, Ports
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


# configuration


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"path": "a", "mode": "w"}, "Input should be 'read', 'write', 'truncate', 'overwrite' or 'append'"),
        ({"path": "a"}, "Field required"),
        ({"path": "", "mode": "read"}, "String should have at least 1 character"),
        ({"path": "a\0b", "mode": "read"}, "a path has no zero byte"),
        ({"path": "a", "mode": "read", "tail": True}, "Extra inputs are not permitted"),
        (
            {"path": "a", "mode": "read", "sync": "never"},
            'sync is only for files that are written, and mode is "read"',
        ),
        ({"path": "a", "mode": "append", "exit": True}, 'exit is for files that are read, and mode is "append"'),
        ({"path": "a", "mode": "append", "sync": "sometimes"}, "Input should be 'always' or 'never'"),
        ({"path": "a", "mode": "read", "chunk_size": 0}, "Input should be greater than or equal to 1"),
    ],
)
def test_configurations_that_are_none(config: dict[str, object], line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        File.model_validate(config)
    assert line in str(caught.value)


def test_what_it_has_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert File(path="./x/../a.log", mode="append").claims() == (Claim("file to write", f"{tmp_path}/a.log"),)
    assert File(path="a.log", mode="write").claims() == (Claim("file to write", f"{tmp_path}/a.log"),)
    assert File(path="a.log", mode="read").claims() == ()


def test_its_ports() -> None:
    assert File.traits.codec is CodecUse.REQUIRED
    assert File(path="a", mode="read").ports_used() == Ports(inputs=(), outputs=("out", "err"))
    assert File(path="a", mode="truncate").ports_used() == Ports(inputs=("in",), outputs=("err",))


SYNCED = "an event is acked after it was written and fdatasync returned. So it survives a power cut"
WRITTEN = (
    "an event is acked after it was written to the operating system: it survives a crash of walflow, not a power cut"
)
OTHERS = "another process cuts, replaces or removes"
OVER = (
    f"until the next start writes over it, or {OTHERS} it. After kill -9 the last line may be torn, with older "
    "content of the file after it"
)
ONCE = (
    "After kill -9 no line is torn, and none comes twice if one path leads here from the log, and nothing on it "
    "takes events out, as a filter does; also if the file was renamed in its directory. If it was moved elsewhere, "
    "cut, replaced or compressed just before, its last lines may come twice, "
    "and the file that was moved may end in a torn line"
)
KEPT = f"until {OTHERS} the file"


@pytest.mark.parametrize(
    ("mode", "sync", "behind_log", "sink"),
    [
        ("truncate", None, True, f"{SYNCED}, until the next start empties the file, or {OTHERS} it"),
        ("write", None, False, f"{WRITTEN}, until the next start empties the file, or {OTHERS} it"),
        ("truncate", "always", False, f"{SYNCED}, until the next start empties the file, or {OTHERS} it"),
        (
            "append",
            None,
            True,
            f"{SYNCED}, {KEPT}. {ONCE}. After a power cut no line is torn or lost, and the last ones may come twice",
        ),
        (
            "append",
            "never",
            True,
            f"{WRITTEN}, {KEPT}. {ONCE}. After a power cut the last lines may be torn or lost, or come twice",
        ),
        (
            "append",
            None,
            False,
            f"{WRITTEN}, {KEPT}. After kill -9 no line is torn. After a power cut the last lines may be torn",
        ),
        ("overwrite", None, True, f"{SYNCED}, {OVER}"),
        ("overwrite", None, False, f"{WRITTEN}, {OVER}"),
        (
            "append",
            "always",
            False,
            f"{SYNCED}, {KEPT}. After kill -9 no line is torn. After a power cut no line is torn",
        ),
    ],
)
def test_what_an_ack_is_worth(mode: str, sync: str | None, behind_log: bool, sink: str) -> None:
    file = File.model_validate({"path": "a.log", "mode": mode, "sync": sync})
    guarantee = file.guarantee(behind_log=behind_log)
    assert (guarantee.source, guarantee.sink) == ("", sink)
    emptied = 'every start empties a.log, also after a crash; mode = "append" keeps acked events'
    over = (
        "every start overwrites a.log from its beginning, also after a crash, and keeps older content after its last "
        'event; mode = "append" keeps acked events'
    )
    assert guarantee.warnings == {"append": (), "overwrite": (over,)}.get(mode, (emptied,))


def test_what_reading_promises() -> None:
    assert File(path="a.log", mode="read").guarantee(behind_log=False) == Guarantee(
        source="a.log is read from its beginning at every start: events that were read before a restart come again. "
        "An event that a sink fails comes again only after a restart"
    )


# reading


async def test_it_reads_to_the_end_and_returns(path: Path) -> None:
    data = os.urandom(600_000)
    await asyncio.to_thread(path.write_bytes, data)
    outlet = MemoryOutlet(VirtualScheduler())
    await File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler(), linked=False), outlet)
    (stream,) = outlet.streams
    assert b"".join(stream.fed) == data
    assert [len(each) for each in stream.fed] == [256 << 10, 256 << 10, 600_000 - (512 << 10)]
    assert (stream.meta, stream.ended) == ({"file": {"path": str(path)}}, "complete")


async def opened(outlet: MemoryOutlet) -> None:
    while not outlet.streams:  # noqa: ASYNC110  # a thread opens the file
        await asyncio.sleep(0)


async def test_it_reads_only_while_the_flow_takes_events(path: Path) -> None:
    await asyncio.to_thread(path.write_bytes, b"1\n")
    outlet = MemoryOutlet(VirtualScheduler(), paused=True)
    task = asyncio.ensure_future(File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler()), outlet))
    await opened(outlet)
    for _ in range(10):
        await asyncio.sleep(0)
    assert outlet.streams[0].fed == []
    outlet.resume()
    await task
    assert outlet.streams[0].fed == [b"1\n"]


async def test_not_linked_it_reads_nothing(path: Path) -> None:
    outlet = MemoryOutlet(VirtualScheduler(), linked=False)
    await File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler()), outlet)
    assert outlet.streams == []


async def test_cancelled_it_drops_the_stream(path: Path) -> None:
    await asyncio.to_thread(path.write_bytes, b"1\n")
    outlet = MemoryOutlet(VirtualScheduler(), paused=True)
    task = asyncio.ensure_future(File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler()), outlet))
    await opened(outlet)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert outlet.streams[0].ended == "closed"


async def test_a_read_that_fails_is_tried_again_where_it_failed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(path.write_bytes, b"1\n2\n")
    failures = [OSError(errno.EIO, os.strerror(errno.EIO))] * 2
    read = AsyncFileIO.read

    async def read_or_fail(file: AsyncFileIO, size: int) -> bytes:
        if failures:
            raise failures.pop()
        return await read(file, size)

    monkeypatch.setattr(AsyncFileIO, "read", read_or_fail)
    scheduler = VirtualScheduler()
    outlet = MemoryOutlet(scheduler)
    task = asyncio.ensure_future(File(path=str(path), mode="read").run(MemoryInlet(scheduler), outlet))
    while not task.done():
        scheduler.advance(1)
        await asyncio.sleep(0)
    assert outlet.streams[0].fed == [b"1\n2\n"]
    assert outlet.lines == [f"cannot read {path}: Input/output error; trying again"] * 2


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda path: None, "it does not exist"),
        (lambda path: path.mkdir(), "it is a directory, which has no end"),
        (os.mkfifo, "it is a named pipe, which has no end"),
    ],
)
async def test_what_cannot_be_read(path: Path, make, line: str) -> None:  # type: ignore[no-untyped-def]
    make(path)
    outlet = MemoryOutlet(VirtualScheduler())
    with pytest.raises(CannotRead) as caught:
        await File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler()), outlet)
    assert str(caught.value) == f"cannot read {path}: {line}"
    assert outlet.streams == []


# writing


async def run(file: File, *batches: bytes, behind_log: bool = False) -> MemoryInlet:
    """A run that is cancelled when it has written all."""
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler, behind_log=behind_log)
    inlet.give(*(inlet.block(data) for data in batches[:1]))  # waits for the run
    task = asyncio.ensure_future(file.run(inlet, MemoryOutlet(scheduler, linked=False)))
    await scheduler.settle()
    inlet.give(*(inlet.block(data) for data in batches[1:]))
    await scheduler.settle()
    task.cancel()
    await scheduler.settle()
    assert task.cancelled()
    assert inlet.acked == list(batches)
    return inlet


async def test_a_restart_of_the_connector_alone_empties_nothing(path: Path) -> None:
    await asyncio.to_thread(path.write_bytes, b"old\n")
    file = File(path=str(path), mode="truncate")
    await run(file, b"1\n", b"2\n")
    await run(file, b"3\n")
    assert await asyncio.to_thread(path.read_bytes) == b"1\n2\n3\n"
    await run(File(path=str(path), mode="write"), b"4\n")
    assert await asyncio.to_thread(path.read_bytes) == b"4\n"


async def test_append_goes_on(path: Path) -> None:
    for data in (b"1\n", b"2\n"):
        await run(File(path=str(path), mode="append"), data)
    assert await asyncio.to_thread(path.read_bytes) == b"1\n2\n"


@pytest.mark.parametrize(("behind_log", "sync", "synced"), [(True, None, 1), (False, None, 0), (False, "always", 1)])
async def test_when_it_syncs(
    path: Path, monkeypatch: pytest.MonkeyPatch, behind_log: bool, sync: str | None, synced: int
) -> None:
    synced_files: list[int] = []
    monkeypatch.setattr("os.fdatasync", synced_files.append)
    file = File.model_validate({"path": str(path), "mode": "truncate", "sync": sync})
    await run(file, b"1\n", behind_log=behind_log)
    assert len(synced_files) == synced + 1  # once more at the end


async def test_a_bug_ends_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("os.writev", stumble)
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    inlet.give(inlet.block(b"1\n"))
    task = asyncio.ensure_future(File(path=str(path), mode="truncate").run(inlet, MemoryOutlet(scheduler)))
    await scheduler.settle()
    with pytest.raises(AssertionError, match="a bug"):
        await task
    assert inlet.failed == [(b"1\n", "test::sink has stopped")]
