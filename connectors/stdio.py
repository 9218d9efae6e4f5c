"""stdin as a source, stdout (or stderr) as a sink, for consoles and shell pipes.

Other processes share stdout, so walflow never makes it non-blocking. Instead, the sink's thread calls `poll` first
and writes no more than a pipe takes without waiting. If no program reads stdout, the sources stop. If stdout is
closed, it cannot be opened again: a log upstream then keeps the events for it; without a log they are dropped.
"""

import asyncio
import errno
import os
import select
import stat
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import ClassVar, Final, Literal, TextIO

from pydantic import Field

from walflow import (
    Block,
    Connector,
    Guarantee,
    Inlet,
    JobEnd,
    JobSink,
    Outlet,
    Ports,
    SinkBreaker,
    SinkWork,
    WalflowError,
)

READ_BYTES: Final = 256 << 10
BATCH_BYTES: Final = 256 << 10
WAITING_BYTES: Final = 1 << 20  # more than this and the sources stop
PIPE_BYTES: Final = 4096  # poll promises room for PIPE_BUF
STALL_MS: Final = 100  # after which a stuck write is given up for the moment, so that a stop never waits for it


class StdoutGone(WalflowError):
    """The connector has stopped with blocks that could not be written to stdout or stderr."""


class Stdio(Connector):
    """As a source, it reads stdin until stdin ends. As a sink, it writes to stdout or stderr: the inputs `stdout` and
    `stderr` say which, and for the input `in`, `stream` does."""

    ports: ClassVar[Ports] = Ports(inputs=("in", "stdout", "stderr"), outputs=("out", "err"))

    stream: Literal["stdout", "stderr"] = Field(
        default="stdout",
        description=(
            "Where to write what comes to the input `in`. On stderr, "
            "walflow's own log lines stand between the events."
        ),
    )

    when_closed: Literal["hold", "drop"] | None = Field(
        default=None,
        description="What happens to events when the stream is closed, as by `walflow run … | head -1`. `hold`: they "
        "are not acked, and the sources stop. `drop`: they are acked, dropped and counted. Default: `hold` if a log "
        "is upstream, which then keeps them for the next start; otherwise `drop`.",
    )

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        written = f"an event is acked after it was written to its stream ({self.stream} for the input `in`)"
        after = (
            "no more events are acked, and its sources stop"
            if self._holds(behind_log)
            else "every further event for it is acked, dropped and counted"
        )
        return Guarantee(
            source=(
                "what was read from stdin cannot be read again: a crash loses the events that no log has acked yet"
            ),
            sink=f"{written}. Whether it was read is not known. Once the stream is closed, {after}",
        )

    def _holds(self, behind_log: bool) -> bool:
        return behind_log if self.when_closed is None else self.when_closed == "hold"

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        consoles = Consoles(inlet, self.stream, holds=self._holds(inlet.upstream.behind_log))
        inlet.serve(consoles.accept)
        try:
            if out.linked:
                await read(out, own_descriptor(sys.__stdin__))
            if inlet.linked:  # stdin has ended, stdout has not
                await asyncio.get_running_loop().create_future()
        finally:
            await consoles.close()


class Consoles:
    """The sink half: stdout, stderr or both. Each is opened as its first block comes, but for `usual`, which is where
    blocks of the input `in` go. Together they have one breaker."""

    def __init__(self, inlet: Inlet, usual: str, *, holds: bool) -> None:
        self._inlet = inlet
        self._usual = usual
        self._holds = holds
        self._breaker = SinkBreaker(inlet)
        self._open: dict[str, JobSink[ConsoleWrite]] = {}
        self._console(usual)

    def accept(self, block: Block) -> None:
        self._console(self._usual if block.port == "in" else block.port).accept(block)

    def _console(self, name: str) -> "JobSink[ConsoleWrite]":
        if name not in self._open:
            fd = own_descriptor(sys.__stderr__ if name == "stderr" else sys.__stdout__)
            self._open[name] = console(self._inlet, fd, name, holds=self._holds, breaker=self._breaker)
        return self._open[name]

    async def close(self) -> None:
        for sink in self._open.values():
            await sink.close()


def own_descriptor(stream: TextIO | None) -> int | None:
    """A copy of the descriptor. It stays valid even if the standard one is closed and its number is given to another
    file."""
    if stream is None:
        return None
    try:
        if stream.writable():
            stream.flush()
        return os.dup(stream.fileno())
    except (OSError, ValueError):
        return None


class ConsoleWrite:
    """Blocks that are written together. `offset`: so far written."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.data = b"".join([block.frames.data for block in blocks])
        self.offset = 0

    def settle(self) -> list[Block]:
        """The blocks that are written whole leave it."""
        written: list[Block] = []
        while self.blocks and len(self.blocks[0].frames.data) <= self.offset:
            block = self.blocks.pop(0)
            written.append(block)
            self.offset -= len(block.frames.data)
            self.data = self.data[len(block.frames.data) :]
        return written


class ConsoleWriting(SinkWork[ConsoleWrite]):
    """One stream. Owns `fd`."""

    def __init__(self, inlet: Inlet, fd: int | None, name: str, *, holds: bool) -> None:
        self._inlet = inlet
        self._fd = fd
        self._name = name
        self._holds = holds
        regular = fd is not None and stat.S_ISREG(os.fstat(fd).st_mode)
        self._step = BATCH_BYTES if regular else PIPE_BYTES
        self._dropped = inlet.counter("dropped_events_total")

    def take(self, waiting: deque[Block]) -> ConsoleWrite | None:
        size, blocks = 0, list[Block]()
        while waiting and (not size or size + len(waiting[0].frames.data) <= BATCH_BYTES):
            block = waiting.popleft()
            blocks.append(block)
            size += len(block.frames.data)
        return ConsoleWrite(blocks) if blocks else None

    def do(self, job: ConsoleWrite) -> None:
        """Writes as much as the stream takes without a long wait."""
        assert self._fd is not None
        room = select.poll()
        room.register(self._fd, select.POLLOUT)
        data = memoryview(job.data)
        while job.offset < len(data) and room.poll(STALL_MS):
            try:
                job.offset += os.write(self._fd, data[job.offset : job.offset + self._step])
            except BlockingIOError:
                return  # another process made it non-blocking, and filled it

    def outcomes(self, job: ConsoleWrite, error: BaseException | None) -> JobEnd:
        written = job.settle()
        if error is None:
            return JobEnd(written)
        if isinstance(error, OSError) and is_full(error):
            return JobEnd(written, trouble=f"cannot write to {self._name}: {error.strerror}")
        return JobEnd(written, lost=self.lost(str(error)))

    def unfinished(self, job: ConsoleWrite) -> Iterator[tuple[Block, int]]:
        start = 0
        for block in job.blocks:
            yield block, bisect_right(block.frames.framing.index(block.frames.data), job.offset - start)
            start += len(block.frames.data)

    def full(self, held_bytes: int, *, was: bool) -> str:
        if held_bytes > (WAITING_BYTES // 2 if was else WAITING_BYTES):
            return f"more than {WAITING_BYTES:,} bytes wait for {self._name} to be read"
        return ""

    def stop_cause(self) -> StdoutGone:
        return StdoutGone(f"{self._name} was not read")

    def lost(self, why: str) -> str:
        kept = "held and its sources stop" if self._holds else "dropped from now on"
        self._inlet.log.warning(f"{self._name} is lost, its events are {kept}", cause=why)
        return f"{self._name} is closed: {why}"

    def drop(self, block: Block) -> None:
        self._dropped.value += block.frames.count
        self._inlet.ack(block)

    def closed(self, error: BaseException | None) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def console(
    inlet: Inlet,
    fd: int | None,
    name: str = "stdout",
    *,
    holds: bool = False,
    breaker: SinkBreaker | None = None,
) -> JobSink[ConsoleWrite]:
    """The sink of one stream. Owns `fd`. `holds`: events that a closed stream did not take are not acked."""
    work = ConsoleWriting(inlet, fd, name, holds=holds)
    sink = JobSink(inlet, work, drop=None if holds else work.drop, breaker=breaker, key=name)
    if fd is None:
        sink.lose(work.lost("it was closed from the start"))
    else:
        sink.begin()
    return sink


def is_full(error: OSError) -> bool:
    """Whether stdout is a file on a disk that is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


async def read(out: Outlet, fd: int | None) -> None:
    """The source half. Owns `fd`. Returns when stdin ends."""
    if fd is None:
        return
    stop, stopper = os.pipe()
    stream = out.stream({})
    try:
        while data := await _read_once(out, fd, stop, stopper):
            stream.feed(data)
        stream.eof(complete=True)
    except BaseException:
        stream.close()
        raise
    finally:
        for each in (fd, stop, stopper):
            os.close(each)


async def _read_once(out: Outlet, fd: int, stop: int, stopper: int) -> bytes:
    await out.ready()
    reading = asyncio.get_running_loop().run_in_executor(None, _read_ready, fd, stop)
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        os.write(stopper, b".")  # a thread left behind would take the next run's first bytes
        await reading
        raise


def _read_ready(fd: int, stop: int) -> bytes:
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    ready.register(stop, select.POLLIN)
    if any(which == stop for which, _ in ready.poll()):
        return b""
    return os.read(fd, READ_BYTES)
