"""stdin as a source, stdout (or stderr) as a sink, for consoles and shell pipes.

Other processes share stdout, so walflow never makes it non-blocking. Instead, the sink's thread calls `poll` first and
writes no more than a pipe takes without waiting. If no program reads stdout, the sources stop. If stdout is closed, it
cannot be opened again: a log upstream then keeps the events for it; without a log they are dropped.
"""

import asyncio
import errno
import os
import select
import stat
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, Literal, TextIO

from pydantic import Field

from walflow import Backoff, Block, Connector, Guarantee, Inlet, OneJob, Outlet, Ports, WalflowError

READ_BYTES: Final = 256 << 10
BATCH_BYTES: Final = 256 << 10
WAITING_BYTES: Final = 1 << 20  # more than this and the sources stop
PIPE_BYTES: Final = 4096  # poll promises room for PIPE_BUF
STALL_MS: Final = 100  # after which a stuck write is given up for the moment, so that a stop never waits for it
FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 10.0


class StdoutGone(WalflowError):
    """The connector has stopped with blocks that could not be written to stdout or stderr."""


class Stdio(Connector):
    """As a source, it reads stdin until stdin ends. As a sink, it writes to stdout or stderr: the inputs `stdout` and `stderr`
    say which, and for the input `in`, `stream` does."""

    ports: ClassVar[Ports] = Ports(inputs=("in", "stdout", "stderr"), outputs=("out", "err"))

    stream: Literal["stdout", "stderr"] = Field(
        default="stdout",
        description="Where to write what comes to the input `in`. On stderr, walflow's own log lines stand between the events.",
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
            source="what was read from stdin cannot be read again: a crash loses the events that no log has acked yet",
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
    """The sink half: stdout, stderr or both. Each is opened as its first block comes, but for `usual`, which is where blocks
    of the input `in` go."""

    def __init__(self, inlet: Inlet, usual: str, *, holds: bool) -> None:
        self._inlet = inlet
        self._usual = usual
        self._holds = holds
        self._breaker = SharedBreaker(inlet)
        self._open: dict[str, Console] = {}
        self._console(usual)

    def accept(self, block: Block) -> None:
        self._console(self._usual if block.port == "in" else block.port).accept(block)

    def _console(self, name: str) -> "Console":
        if name not in self._open:
            fd = own_descriptor(sys.__stderr__ if name == "stderr" else sys.__stdout__)
            self._open[name] = Console(self._inlet, fd, name, holds=self._holds, breaker=self._breaker)
        return self._open[name]

    async def close(self) -> None:
        for console in self._open.values():
            await console.close()


class SharedBreaker:
    """The breaker of a sink, for its streams: triggered while one of them is."""

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet
        self._reasons: dict[str, str] = {}

    def trigger(self, stream: str, reason: str) -> None:
        self._reasons[stream] = reason
        self._inlet.trigger(reason)

    def restore(self, stream: str) -> None:
        self._reasons.pop(stream, None)
        if self._reasons:
            self._inlet.trigger(next(iter(self._reasons.values())))
        else:
            self._inlet.restore()


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


class Console:
    """One stream. Owns `fd`. `holds`: events that a closed stream did not take are not acked."""

    def __init__(
        self,
        inlet: Inlet,
        fd: int | None,
        name: str = "stdout",
        *,
        holds: bool = False,
        breaker: SharedBreaker | None = None,
    ) -> None:
        self._inlet = inlet
        self._breaker = breaker or SharedBreaker(inlet)
        self._holds = holds
        self._name = name
        self._writes = OneJob(inlet.scheduler, self._take, self._written)
        self._dropped = inlet.counter("dropped_events_total")
        self._fd = fd
        self._step = PIPE_BYTES
        self._waiting: deque[Block] = deque()
        self._waiting_bytes = 0  # with what is being written
        self._writing: list[Block] = []
        self._data = b""
        self._offset = 0  # of `_data`, so far written; the thread's while a job is in the air
        self._failing: str | None = None
        self._triggered = False
        self._backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        self._lost = False
        self._idle = asyncio.Event()  # no job is in the air, once it is closing
        if fd is None:
            self._lose("it was closed from the start")
        elif stat.S_ISREG(os.fstat(fd).st_mode):
            self._step = BATCH_BYTES

    def accept(self, block: Block) -> None:
        if self._lost:
            self._leave(block)
            return
        self._waiting.append(block)
        self._waiting_bytes += len(block.frames.data)
        self._set_breaker()
        self._writes.want()

    async def close(self) -> None:
        """Waits for the write that is running, then fails the events that were not written."""
        self._writes.stop()
        self._idle.clear()
        if self._writes.in_air:
            await asyncio.shield(self._idle.wait())
        unwritten, self._writing = self._writing, []
        start = 0
        for block in unwritten:
            done = bisect_right(block.frames.framing.index(block.frames.data), self._offset - start)
            start += len(block.frames.data)
            self._inlet.fail(block, StdoutGone(f"{self._name} was not read"), done)
        while self._waiting:
            self._inlet.fail(self._waiting.popleft(), StdoutGone(f"{self._name} was not read"))
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _take(self) -> Callable[[], None] | None:
        if self._lost:
            return None
        return self._write if self._writing or self._gather() else None

    def _gather(self) -> bool:
        size = 0
        while self._waiting and (not size or size + len(self._waiting[0].frames.data) <= BATCH_BYTES):
            block = self._waiting.popleft()
            self._writing.append(block)
            size += len(block.frames.data)
        self._data = b"".join([block.frames.data for block in self._writing])
        self._offset = 0
        return bool(self._writing)

    def _write(self) -> None:
        """On the thread: writes as much as stdout takes without a long wait."""
        assert self._fd is not None
        room = select.poll()
        room.register(self._fd, select.POLLOUT)
        data = memoryview(self._data)
        while self._offset < len(data) and room.poll(STALL_MS):
            try:
                self._offset += os.write(self._fd, data[self._offset : self._offset + self._step])
            except BlockingIOError:
                return  # another process made it non-blocking, and filled it

    def _written(self, error: BaseException | None) -> float:
        self._idle.set()
        self._settle_written()
        wait = 0.0
        if error is None:
            self._failing = None
            self._backoff.reset()
        elif isinstance(error, OSError) and is_full(error):
            self._failing = f"cannot write to {self._name}: {error.strerror}"
            wait = self._backoff.next()
        else:
            self._lose(str(error))
        self._set_breaker()
        return wait

    def _settle_written(self) -> None:
        while self._writing and len(self._writing[0].frames.data) <= self._offset:
            block = self._writing.pop(0)
            size = len(block.frames.data)
            self._offset -= size
            self._data = self._data[size:]
            self._waiting_bytes -= size
            self._inlet.ack(block)

    def _set_breaker(self) -> None:
        limit = WAITING_BYTES // 2 if self._triggered else WAITING_BYTES
        full = self._waiting_bytes > limit
        if self._failing is not None or full:
            if not self._triggered:
                self._triggered = True
                unread = f"more than {WAITING_BYTES:,} bytes wait for {self._name} to be read"
                self._breaker.trigger(self._name, self._failing or unread)
        elif self._triggered:
            self._triggered = False
            self._breaker.restore(self._name)

    def _lose(self, why: str) -> None:
        self._lost = True
        if self._holds:
            self._failing = f"{self._name} is closed: {why}"
            self._inlet.log.warning(f"{self._name} is lost, its events are held and its sources stop", cause=why)
        else:
            self._failing = None
            self._inlet.log.warning(f"{self._name} is lost, its events are dropped from now on", cause=why)
        self._set_breaker()
        if self._holds and not self._inlet.upstream.replaceable:
            return
        begun, self._writing = self._writing, []
        for block in (*begun, *self._waiting):
            self._leave(block)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _leave(self, block: Block) -> None:
        """Handles a block that a closed stream cannot take."""
        if not self._holds:
            self._drop(block)
        elif self._inlet.upstream.replaceable:  # another output takes it
            self._inlet.fail(block, StdoutGone(str(self._failing)))
        else:
            self._waiting.append(block)

    def _drop(self, block: Block) -> None:
        self._dropped.value += block.frames.count
        self._inlet.ack(block)


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
