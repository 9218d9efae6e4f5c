import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import pytest

import connectors.stdio
from connectors.stdio import Stdio, console, own_descriptor, read
from walflow.contract import CodecUse, Guarantee, Ports
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


class Pipe:
    """Each end is closed once, here or by whoever took it."""

    def __init__(self) -> None:
        self.reading, self.writing = map(os.fdopen, os.pipe(), ("rb", "wb"), (0, 0))

    def take_reading(self) -> int:
        return self._take(self.reading)

    def take_writing(self) -> int:
        return self._take(self.writing)

    def _take(self, end: IO[bytes]) -> int:
        taken = os.dup(end.fileno())
        end.close()
        return taken

    def read(self, size: int = 1 << 20) -> bytes:
        return os.read(self.reading.fileno(), size)

    def write(self, data: bytes) -> None:
        os.write(self.writing.fileno(), data)

    def close(self) -> None:
        self.reading.close()
        self.writing.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors.stdio, "STALL_MS", 0)


class Sink:
    def __init__(self, fd: int | None) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.console = console(self.inlet, fd)
        self.inlet.serve(self.console.accept)

    def write(self, *events: bytes) -> None:
        self.inlet.give(self.inlet.lines_of(*events))
        self.step()

    def step(self) -> None:
        """What is due, and one job: a stuck write is tried again at once, so `run` would not end."""
        self.scheduler.holding = True
        self.scheduler.run()
        while self.scheduler.in_air:
            self.scheduler.work()
            if self.scheduler.in_air and not self.scheduler.run():
                break

    @property
    def dropped(self) -> int:
        return self.inlet.counter("dropped_events_total").value

    def stop(self) -> None:
        asyncio.run(self._stop())

    async def _stop(self) -> None:
        closing = asyncio.ensure_future(self.console.close())
        await asyncio.sleep(0)
        self.step()
        await closing


# stdout


def test_a_pipe_that_nobody_reads_holds_and_stops_the_sources(pipe: Pipe) -> None:
    sink = Sink(pipe.take_writing())
    block = b"x" * 99_999
    sink.write(block)
    assert sink.inlet.acked == []
    assert sink.inlet.breaker is None
    for _ in range(10):
        sink.write(block)
    assert sink.inlet.breaker == "more than 1,048,576 bytes wait for stdout to be read"
    read = pipe.read()
    while len(read) < 600_000:
        sink.step()
        read += pipe.read()
        assert (sink.inlet.breaker is None) == (len(sink.inlet.acked) >= 6), len(read)
    while len(sink.inlet.acked) < 11:
        sink.step()
        if len(sink.inlet.acked) < 11:
            read += pipe.read()
    sink.stop()  # and closes its end
    while more := pipe.read():
        read += more
    assert read == (block + b"\n") * 11
    assert (len(sink.inlet.triggered), sink.inlet.failed) == (1, [])


def test_stopped_while_nobody_reads(pipe: Pipe) -> None:
    sink = Sink(pipe.take_writing())
    capacity = 1 << 16
    sink.write(b"a" * (capacity - 3), b"b", b"c")
    sink.write(b"d")
    sink.stop()
    assert pipe.read().endswith(b"a\nb\n")
    assert sink.inlet.failed == [(b"c\n", "stdout was not read"), (b"d\n", "stdout was not read")]


@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_stdout_closed_is_lost_and_nothing_else(pipe: Pipe, when: str) -> None:
    sink = Sink(pipe.take_writing())
    if when == "while it waits":
        for _ in range(12):
            sink.write(b"x" * 99_999)
        assert sink.inlet.breaker is not None
    os.close(pipe.take_reading())
    sink.step()
    sink.write(b"1", b"2")
    sink.write(b"3")
    assert sink.inlet.acked[-2:] == [b"1\n2\n", b"3\n"]
    assert sink.dropped == (3 if when == "before" else 15)
    assert sink.inlet.logged == [
        {
            "level": "warning",
            "event": "stdout is lost, its events are dropped from now on",
            "cause": "[Errno 32] Broken pipe",
        }
    ]
    assert (sink.inlet.breaker, sink.inlet.failed) == (None, [])
    sink.stop()


def test_no_stdout_at_all() -> None:
    sink = Sink(None)
    sink.write(b"1")
    assert (sink.inlet.acked, sink.dropped) == ([b"1\n"], 1)
    assert sink.inlet.logged[0]["cause"] == "it was closed from the start"
    sink.stop()


def test_a_full_disk_behind_stdout_is_waited_for() -> None:
    sink = Sink(os.open("/dev/full", os.O_WRONLY))
    sink.write(b"1")
    assert sink.inlet.breaker == "cannot write to stdout: No space left on device"
    assert sink.scheduler.timers == [pytest.approx(0.1)]
    assert (sink.inlet.acked, sink.inlet.logged) == ([], [])
    sink.stop()
    assert sink.inlet.failed == [(b"1\n", "stdout was not read")]


async def test_a_stop_waits_for_the_write_that_is_tried_again_on_a_full_disk() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(fd)
    sink.write(b"1")
    sink.scheduler.advance(0.1)
    assert sink.scheduler.in_air == 1
    closing = asyncio.ensure_future(sink.console.close())
    await asyncio.sleep(0)
    assert not closing.done()
    os.fstat(fd)  # it is open for the thread that writes
    sink.scheduler.work()
    await closing
    assert sink.inlet.failed == [(b"1\n", "stdout was not read")]


def test_stdout_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = Sink(os.open(path, os.O_WRONLY | os.O_CREAT))
    sink.write(b"x" * 500_000, b"y")
    sink.stop()
    assert path.read_bytes() == b"x" * 500_000 + b"\ny\n"
    assert len(sink.inlet.acked) == 1


def test_a_descriptor_of_its_own(tmp_path: Path) -> None:
    assert own_descriptor(None) is None
    assert own_descriptor(io.StringIO()) is None
    with (tmp_path / "out").open("w") as file:
        file.write("first, ")
        fd = own_descriptor(file)
        assert fd is not None
        assert fd != file.fileno()
    os.write(fd, b"then")
    os.close(fd)
    assert (tmp_path / "out").read_text() == "first, then"


# stdin


async def test_it_reads_to_the_end(pipe: Pipe) -> None:
    pipe.write(b"1\n2")
    outlet = MemoryOutlet(VirtualScheduler())
    reading = asyncio.ensure_future(read(outlet, pipe.take_reading()))
    while not (outlet.streams and outlet.streams[0].fed):  # noqa: ASYNC110  # a thread reads
        await asyncio.sleep(0)
    os.close(pipe.take_writing())
    await reading
    assert (outlet.streams[0].fed, outlet.streams[0].ended) == ([b"1\n2"], "complete")


async def test_paused_it_leaves_stdin_alone(pipe: Pipe) -> None:
    pipe.write(b"1\n")
    outlet = MemoryOutlet(VirtualScheduler(), paused=True)
    reading = asyncio.ensure_future(read(outlet, os.dup(pipe.reading.fileno())))
    for _ in range(10):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert outlet.streams[0].ended == "closed"
    assert pipe.read() == b"1\n"


async def test_cancelled_it_takes_nothing_more(pipe: Pipe) -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    reading = asyncio.ensure_future(read(outlet, os.dup(pipe.reading.fileno())))
    for _ in range(10):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    pipe.write(b"1\n")
    assert pipe.read() == b"1\n"
    assert outlet.streams[0].fed == []


async def test_no_stdin_at_all() -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    await read(outlet, None)
    assert outlet.streams == []


# both


async def test_a_run_without_anything_linked_to_stdin_waits_for_blocks(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.__stdout__", pipe.writing)
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    task = asyncio.ensure_future(Stdio().run(inlet, MemoryOutlet(scheduler, linked=False)))
    await scheduler.settle()
    inlet.give(inlet.lines_of(b"1"))
    await scheduler.settle()
    assert (inlet.acked, pipe.read()) == ([b"1\n"], b"1\n")
    task.cancel()
    await scheduler.settle()
    assert task.cancelled()


@pytest.fixture
def other() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.mark.parametrize("usual", ["stdout", "stderr"])
async def test_an_event_goes_where_its_input_says(
    pipe: Pipe, other: Pipe, monkeypatch: pytest.MonkeyPatch, usual: Literal["stdout", "stderr"]
) -> None:
    monkeypatch.setattr("sys.__stdout__", pipe.writing)
    monkeypatch.setattr("sys.__stderr__", other.writing)
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    task = asyncio.ensure_future(Stdio(stream=usual).run(inlet, MemoryOutlet(scheduler, linked=False)))
    await scheduler.settle()
    for port in ("in", "stdout", "stderr"):
        inlet.give(inlet.lines_of(port.encode()).at_port(port))
    await scheduler.settle()
    written = {"stdout": pipe.read(), "stderr": other.read()}
    for stream, data in written.items():
        assert data.splitlines() == ([b"in", stream.encode()] if stream == usual else [stream.encode()])
    assert len(inlet.acked) == 3
    task.cancel()
    await scheduler.settle()


async def test_a_closed_stream_that_no_event_is_for_does_no_harm(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.__stdout__", pipe.writing)
    monkeypatch.setattr("sys.__stderr__", None)
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    task = asyncio.ensure_future(Stdio().run(inlet, MemoryOutlet(scheduler, linked=False)))
    await scheduler.settle()
    inlet.give(inlet.lines_of(b"1").at_port("stdout"))
    await scheduler.settle()
    assert (pipe.read(), inlet.breaker, inlet.lines) == (b"1\n", None, [])
    inlet.give(inlet.lines_of(b"2").at_port("stderr"))
    await scheduler.settle()
    assert inlet.acked == [b"1\n", b"2\n"]  # dropped and counted
    assert inlet.counter("dropped_events_total").value == 1
    task.cancel()
    await scheduler.settle()


@pytest.mark.parametrize("sink_linked", [True, False])
async def test_after_stdin_the_sink_goes_on(pipe: Pipe, monkeypatch: pytest.MonkeyPatch, sink_linked: bool) -> None:
    monkeypatch.setattr("sys.__stdin__", pipe.reading)
    os.close(pipe.take_writing())
    scheduler = VirtualScheduler()
    inlet, outlet = MemoryInlet(scheduler, linked=sink_linked), MemoryOutlet(scheduler)
    task = asyncio.ensure_future(Stdio().run(inlet, outlet))
    while not (outlet.streams and outlet.streams[0].ended):  # noqa: ASYNC110  # a thread reads
        await asyncio.sleep(0)
    await scheduler.settle()
    assert task.done() is not sink_linked
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_what_it_says_of_itself() -> None:
    assert Stdio.traits.codec is CodecUse.REQUIRED
    assert Stdio().ports_used() == Ports(inputs=("in", "stdout", "stderr"), outputs=("out", "err"))
    source = "what was read from stdin cannot be read again: a crash loses the events that no log has acked yet"
    sink = (
        "an event is acked after it was written to its stream (stdout for the input `in`). Whether it was read is "
        "not known. Once the stream is closed, "
    )
    drops = f"{sink}every further event for it is acked, dropped and counted"
    holds = f"{sink}no more events are acked, and its sources stop"
    assert Stdio().guarantee(behind_log=False) == Guarantee(source, drops)
    assert Stdio().guarantee(behind_log=True) == Guarantee(source, holds)
    assert Stdio(when_closed="hold").guarantee(behind_log=False) == Guarantee(source, holds)
    assert Stdio(when_closed="drop").guarantee(behind_log=True) == Guarantee(source, drops)
