"""A round robin over two sinks that write to disks, one of them full: all events arrive in the other, and once there
is room in both again."""

import asyncio
import errno
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from connectors.file.appended_file import AppendedFile
from connectors.file.file_sink import file_sink
from connectors.file.output import FileBatch, Output
from connectors.wal import RunningLog, Wal
from tests.connectors.world import FailingDisk
from tests.operators.flows import Running, Sink
from walflow import JobSink
from walflow.delivery import Arriving, Checkpoints, LogSink
from walflow.delivery.tag import Tags
from walflow.event import Block
from walflow.testing import MemoryDisk, MemoryOutlet
from walflow.wal import Log

BODY = """
    define operator rr from qos::roundrobin with outputs = ["full", "well"] end;
    create operator rr;
    select event from in into rr;
    select event from rr/full into out/full;
    select event from rr/well into out/well;
"""
SIZE = 1000  # bytes of an event


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.chdir(tmp_path)
    running = Running(BODY, ("full", "well"), started=False)
    for sink in running.sinks:
        sink.node.begin(running.world.context(sink.node.name))
        assert sink.node.upstream.replaceable
    yield running
    running.end()
    assert running.outlet.inflight == 0


def give(flow: Running, *numbers: int, size: int = SIZE) -> None:
    for number in numbers:
        flow.give({"id": number, "x": "y" * size})
        flow.world.scheduler.run()


def is_away(sink: Sink) -> bool:
    return sink.node.reason is not None


class Files:
    def __init__(self, flow: Running, directory: Path, make: Callable[..., Output]) -> None:
        self.disk = FailingDisk(errno.ENOSPC)
        self.paths = [directory / "full.log", directory / "well.log"]
        outputs = [make(str(path), self.disk, sync=True) for path in self.paths]
        self.writers = [file_sink(sink.node, output) for sink, output in zip(flow.sinks, outputs, strict=True)]
        for writer in self.writers:
            writer.start()
        flow.world.scheduler.run()

    def ids(self) -> list[list[int]]:
        return [[json.loads(line)["id"] for line in path.read_text().splitlines()] for path in self.paths]


def truncating(path: str, disk: FailingDisk, *, sync: bool) -> Output:
    return Output(path, disk, sync=sync, empty=True)


@pytest.mark.parametrize("make", [AppendedFile, truncating])
@pytest.mark.parametrize("failing", ["write", "sync"])
def test_what_a_file_on_a_full_disk_cannot_take_the_other_gets(
    flow: Running, tmp_path: Path, make: Callable[..., Output], failing: str
) -> None:
    files = Files(flow, tmp_path, make)
    give(flow, 0, 1)
    assert files.ids() == [[0], [1]]
    files.disk.failing, files.disk.only = {failing}, "/full.log"
    give(flow, *range(2, 8))
    assert files.ids() == [[0], list(range(1, 8))]
    assert (is_away(flow.sinks[0]), flow.outlet.inflight) == (True, 0)
    flow.world.scheduler.advance(0.1)
    assert not is_away(flow.sinks[0]), "a probe is possible"
    give(flow, 8, 9)
    assert is_away(flow.sinks[0])
    assert files.ids() == [[0], list(range(1, 10))], "and the probe went to the other"
    assert flow.outlet.inflight == 0
    files.disk.failing = set()
    flow.world.scheduler.advance(1.0)
    give(flow, 10, 11)
    assert [len(ids) for ids in files.ids()] == [2, 10]
    assert sorted(chain(*files.ids())) == list(range(12)), "each of them once"
    for writer in files.writers:
        asyncio.run(closed(flow, writer))


async def closed(flow: Running, writer: JobSink[FileBatch]) -> None:
    closing = asyncio.ensure_future(writer.close())
    await flow.world.scheduler.settle()
    await closing


class Logs:
    """What each has sent on and not acked stands in its outlet."""

    def __init__(self, flow: Running) -> None:
        self.scheduler = flow.world.scheduler
        self.disks = [MemoryDisk(), MemoryDisk()]
        self.outlets = [MemoryOutlet(self.scheduler), MemoryOutlet(self.scheduler)]
        self.logs: list[Log] = []
        self.running: list[RunningLog] = []
        for sink, disk, outlet in zip(flow.sinks, self.disks, self.outlets, strict=True):
            config = Wal(path="/log", chunk_size=4096, max_chunks=4)
            self.logs.append(Log(config.options(), disk))
            self.running.append(RunningLog(config, self.logs[-1], sink.node, outlet))
        self.scheduler.run()

    def ids(self) -> list[list[int]]:
        return [sorted(ids_of(outlet.sent)) for outlet in self.outlets]

    def ack(self, number: int) -> list[int]:
        """All that came there."""
        found: list[int] = []
        while self.outlets[number].sent:
            sent, self.outlets[number].sent = self.outlets[number].sent, []
            found += ids_of(sent)
            for block in sent:
                block.receipt.ack("a sink")
            self.scheduler.run()
        return found

    def close(self) -> None:
        for running in self.running:
            running.stop()
        for outlet in self.outlets:
            for block in outlet.sent:
                block.receipt.ack("a sink")
        for log in self.logs:
            log.close()


def ids_of(blocks: list[Block]) -> list[int]:
    return [value["id"] for block in blocks for value in block.values]  # type: ignore[index]


@pytest.mark.parametrize(
    "size", [SIZE, 6 * SIZE]
)  # the log is full by nine tenths; or there is no room for a large one
def test_what_does_not_fit_a_log_that_is_full_the_other_gets(flow: Running, size: int) -> None:
    logs = Logs(flow)
    got: list[int] = []
    for number in range(60):
        give(flow, number, size=size)
        got += logs.ack(1)  # whoever reads the first one is away
        assert flow.outlet.inflight == 0, "each is settled"
        logs.scheduler.advance(0.2)
    first = logs.ids()[0]
    assert is_away(flow.sinks[0])
    assert 1 < len(first) < 15
    assert sorted(first + got) == list(range(60))
    logs.ack(0)
    logs.scheduler.advance(1.0)
    assert not is_away(flow.sinks[0])
    give(flow, 60, 61)
    assert sorted(logs.ack(0) + logs.ack(1)) == [60, 61]
    logs.close()


def test_what_a_log_on_a_full_disk_has_not_written_the_other_gets_and_nobody_gets_it_twice(flow: Running) -> None:
    logs = Logs(flow)
    give(flow, 0, 1)
    assert logs.ids() == [[0], [1]]
    logs.disks[0].fault = lambda operation, path: errno.ENOSPC if operation == "write" else None
    give(flow, *range(2, 8))
    assert is_away(flow.sinks[0])
    assert (logs.ids(), flow.outlet.inflight) == ([[0], list(range(1, 8))], 0)
    logs.scheduler.advance(10)
    assert is_away(flow.sinks[0]), "the commit that it tries again is the probe"
    logs.disks[0].fault = None
    logs.scheduler.advance(2)
    assert not is_away(flow.sinks[0])
    give(flow, 8, 9)
    assert [len(ids) for ids in logs.ids()] == [2, 8]
    assert sorted(chain(*logs.ids())) == list(range(10)), "each of them once"
    logs.ack(0)
    logs.ack(1)
    assert [log.low for log in logs.logs] == [log.durable for log in logs.logs], "nothing is left"
    logs.close()


@pytest.mark.parametrize("arriving", [False, True])
def test_a_log_that_may_not_take_back_keeps_what_it_has_begun_and_fails_the_rest(
    flow: Running, *, arriving: bool
) -> None:
    """As the log of Spark, where each consumer reads for itself. Of a log that knows positions upstream, another copy
    of an event would be taken for known."""
    inlet, disk, scheduler = flow.sinks[0].node, MemoryDisk(), flow.world.scheduler
    log = Log(Wal(path="/log", chunk_size=4096, max_chunks=4).options(), disk)
    checkpoints = Checkpoints(log, scheduler, inlet, lambda: writer.room())
    known = Arriving(log, inlet) if arriving else None
    writer = LogSink(log, inlet, Tags(), lambda: None, checkpoints, arriving=known, takes_back=arriving)
    inlet.serve(writer.accept)
    flow.sinks[1].start()
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "write" else None
    give(flow, *range(8))
    assert inlet.reason is not None
    begun = log.next - 1
    assert begun == 1
    assert sorted(value["id"] for value in flow.got[1]) == list(range(1, 8))  # type: ignore[index]
    disk.fault = None
    scheduler.advance(2)
    assert (inlet.reason, log.durable) == (None, begun)
    writer.stop()
    checkpoints.stop()
    log.close()
