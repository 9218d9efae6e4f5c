"""What every sink owes, of each of ours. What is special about one stands in its own tests."""

import asyncio
import errno
import fcntl
import importlib.util
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import cast

from connectors.file.appended_file import AppendedFile
from connectors.file.file_sink import file_sink
from connectors.file.output import Output
from connectors.memory import Memory
from connectors.sqlite.rows import Cell
from connectors.sqlite.table import SqliteTable
from connectors.stdio import console
from connectors.tcp import TcpClient
from connectors.udp.client import Refusals, datagram_sink
from connectors.wal import Wal
from tests.connectors.test_tcp_client import Peer
from tests.connectors.world import FailingDisk
from walflow import Backoff, Block, Connector, Inlet, NotDelivered, Outlet
from walflow.cli import new
from walflow.disk import Stat
from walflow.net import Failure, HeldPart, RetryQueue, RetrySink
from walflow.tables import WHOLE, RowRefusal, run_table
from walflow.testing import MemoryDisk, MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.testing.sinks import JobsOnThread, RunsSink, SinkSubject, WatchedInlet, sink_promises
from walflow.wal import Log

ROOM = 500
FILLING = b"filling"
TOO_LARGE = b'"' + b"x" * 65506 + b'"'


class InDirectory(JobsOnThread):
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp())

    async def close(self) -> None:
        shutil.rmtree(self.directory)


class FileSubject(InDirectory):
    """The file's sink on a disk that gets full."""

    sighup_ends_waits = True

    def __init__(self, make: Callable[[str, FailingDisk], Output]) -> None:
        super().__init__()
        self._disk = BreakingDisk(errno.ENOSPC)
        self._make = make
        self.path = self.directory / "out.log"

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await file_sink(inlet, self._make(str(self.path), self._disk)).run()

    def got(self) -> Sequence[bytes]:
        return self.path.read_bytes().splitlines() if self.path.exists() else []

    def fail(self) -> None:
        self._disk.failing = {"write", "open"}

    def fail_otherwise(self) -> None:
        self._disk.number = errno.EDQUOT

    def fail_after(self, events: int) -> None:
        self._disk.failing, self._disk.written = {"write"}, events * len(b"1\n")

    def mend(self) -> None:
        self._disk.failing, self._disk.written = set(), 0

    def bug(self) -> None:
        self._disk.broken = True


class BreakingDisk(FailingDisk):
    """One that has a bug, too, while it is `broken`."""

    broken = False

    def look(self, path: str) -> Stat | None:
        if self.broken:
            raise KeyError("a bug")
        return super().look(path)


def truncating() -> FileSubject:
    return FileSubject(lambda path, disk: Output(path, disk, sync=True, empty=not os.path.exists(path)))


def appending() -> FileSubject:
    return FileSubject(lambda path, disk: AppendedFile(path, disk, sync=True))


test_file = sink_promises(truncating)
test_file_append = sink_promises(appending)


class BreakingTable(SqliteTable):
    """One that has a bug, while it is `broken`."""

    broken = False

    def insert(self, rows: Sequence[tuple[Cell, ...] | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        if self.broken:
            raise KeyError("a bug")
        return super().insert(rows, apart=apart)


class SqliteSubject(InDirectory):
    """A table that is renamed while the sink uses it."""

    never = b'"no"'

    def __init__(self) -> None:
        super().__init__()
        self._path = self.directory / "out.db"
        self._name = "events"
        self._run("""CREATE TABLE events (event CHECK (event <> '"no"'))""")
        self._table = BreakingTable(str(self._path), "events", WHOLE, create=False)

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await run_table(inlet, self._table)

    def got(self) -> Sequence[bytes]:
        return [str(event).encode() for (event,) in self._run(f"SELECT event FROM {self._name} ORDER BY rowid")]

    def fail(self) -> None:
        self._run("ALTER TABLE events RENAME TO away")
        self._name = "away"

    def fail_otherwise(self) -> None:
        self._run("CREATE TABLE events (other)")

    def mend(self) -> None:
        self._run("DROP TABLE IF EXISTS events")
        self._run("ALTER TABLE away RENAME TO events")
        self._name = "events"

    def bug(self) -> None:
        self._table.broken = True

    def _run(self, statement: str) -> Sequence[tuple[object, ...]]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()


test_sqlite = sink_promises(SqliteSubject)


class SpoolSubject(InDirectory):
    """The tutorial's sink. In the place of its directory there is a file: it can make no files there."""

    def __init__(self) -> None:
        super().__init__()
        self._parent, self._away = self.directory / "spool", self.directory / "away"
        self._out = self._parent / "out"
        self._connector: Connector = _spool().Spool(path=str(self._out), mode="write")

    async def open(self) -> RunsSink:
        return self._connector

    async def again(self) -> RunsSink:
        return self._connector

    def got(self) -> Sequence[bytes]:
        where = self._out if self._out.is_dir() else self._away / "out"
        found = sorted(where.glob("*.json")) if where.is_dir() else []
        return [line for path in found for line in path.read_bytes().splitlines()]

    def fail(self) -> None:
        if self._parent.exists():
            self._parent.rename(self._away)
        self._parent.mkdir()
        self._out.touch()

    def fail_otherwise(self) -> None:
        shutil.rmtree(self._parent)
        self._parent.touch()

    def mend(self) -> None:
        shutil.rmtree(self._parent)
        if self._away.exists():
            self._away.rename(self._parent)


def _spool() -> ModuleType:
    path = Path(new.__file__).parent / "templates" / "connector" / "spool.py"
    spec = importlib.util.spec_from_file_location("spool_of_the_tutorial", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


test_spool = sink_promises(SpoolSubject)


class StdioSubject(JobsOnThread):
    """A pipe that is read; in trouble, a file on a full disk stands in its place. The pipe takes a large block as a whole: what writes to it
    and what reads from it are one thread here."""

    large = 1 << 19

    def __init__(self) -> None:
        self._reading, self._pipe = os.pipe()
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.set_blocking(self._reading, False)
        self._full = os.open("/dev/full", os.O_WRONLY)
        self._behind = self._pipe
        self._fd: int | None = None
        self._read = b""

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        self._fd = os.dup(self._behind)
        try:
            await console(inlet, self._fd, holds=True).run()
        finally:
            self._fd = None

    def got(self) -> Sequence[bytes]:
        try:
            while data := os.read(self._reading, 1 << 16):
                self._read += data
        except BlockingIOError:
            pass
        return self._read.splitlines()

    def fail(self) -> None:
        self._stand(self._full)

    def mend(self) -> None:
        self._stand(self._pipe)

    def _stand(self, behind: int) -> None:
        self._behind = behind
        if self._fd is not None:
            os.dup2(behind, self._fd)

    async def close(self) -> None:
        for fd in (self._reading, self._pipe, self._full):
            os.close(fd)


test_stdio = sink_promises(StdioSubject)


class Datagrams:
    """A connected socket, whose system takes no datagram while there is `trouble`."""

    def __init__(self) -> None:
        self.trouble = 0
        self.left = 1_000_000  # that it takes
        self.sent: list[bytes] = []

    def send(self, data: bytes, /) -> int:
        if not self.left:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        self.left -= 1
        number = self.trouble or (errno.EMSGSIZE if data == TOO_LARGE else 0)
        if number:
            raise OSError(number, os.strerror(number))
        self.sent.append(data)
        return len(data)

    def getsockopt(self, level: int, option: int, /) -> int:
        return 0


class UdpSubject(SinkSubject):
    too_large = TOO_LARGE

    def __init__(self) -> None:
        self._socket = Datagrams()

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        sink = datagram_sink(self._socket, inlet, Refusals(self._socket, inlet, "peer"))
        sink.connected()
        sink.serve(NotDelivered("there is no socket"))
        try:
            await asyncio.Event().wait()
        finally:
            await sink.close()

    def got(self) -> Sequence[bytes]:
        return self._socket.sent

    def fail(self) -> None:
        self._socket.trouble = errno.ENOBUFS

    def fail_otherwise(self) -> None:
        self._socket.trouble = errno.ENETUNREACH

    def fail_after(self, events: int) -> None:
        self._socket.left = events

    def mend(self) -> None:
        self._socket.trouble, self._socket.left = 0, 1_000_000


test_udp = sink_promises(UdpSubject)


class TcpSubject(SinkSubject):
    """In trouble, no program listens."""

    notices = True
    config: dict[str, object] = {}  # noqa: RUF012  # it is read alone
    echoes = False

    def __init__(self) -> None:
        self.peer = Peer()
        self.peer.echoing = self.echoes
        self._away = False

    async def open(self) -> RunsSink:
        await self.peer.listen()
        if self._away:
            self.peer.leave()
        return self.client()

    async def again(self) -> RunsSink:
        return self.client()

    def client(self) -> RunsSink:
        return TcpClient.model_validate({"url": f"127.0.0.1:{self.peer.port}", **self.config})

    def got(self) -> Sequence[bytes]:
        return b"".join(self.peer.received).splitlines()

    def fail(self) -> None:
        self._away = True
        if self.peer.port:
            self.peer.leave()

    def mend(self) -> None:
        self._away = False
        self._listening = asyncio.ensure_future(self.peer.listen())

    async def close(self) -> None:
        if (listening := getattr(self, "_listening", None)) is not None:
            await listening
        if self.peer.port:
            self.peer.leave()
            await asyncio.sleep(0)


class EchoSubject(TcpSubject):
    config = {"ack": "echo"}  # noqa: RUF012  # it is read alone
    echoes = True

    def fail_after(self, events: int) -> None:
        self.peer.left = events

    def mend(self) -> None:
        self.peer.left = 1_000_000
        super().mend()

    def hold(self, scheduler: VirtualScheduler) -> None:
        self.peer.echoing = False

    def release(self, scheduler: VirtualScheduler) -> None:
        if not self.peer.echoing and self.peer.received:
            self.peer.send(b"".join(self.peer.received))
        self.peer.echoing = True


NO_ECHO = {
    "a_stop_waits_for_what_is_under_way": "it waits until all is written, and for no echo: what has none fails"
}
test_tcp = sink_promises(TcpSubject)
test_tcp_echo = sink_promises(EchoSubject, without=NO_ECHO)


class RequestsSubject(SinkSubject):
    """A sink of requests, as `http_client`, `dns_client` and `schema_registry` are."""

    never = b'"never"'

    def __init__(self) -> None:
        self._trouble = ""
        self._left = 1_000_000  # that are taken
        self._got: list[bytes] = []
        self._held: asyncio.Event | None = None

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        queue = RetryQueue[Block](1, 3, Backoff(0.1, 10.0))
        sink = RetrySink(
            inlet,
            queue,
            Backoff(0.1, 10.0),
            add=lambda blocks: queue.add(
                [(part, 1) for block in blocks for part in block.split([1] * block.frames.count)]
            ),
            fail=inlet.fail,
            blocks=lambda block: (block,),
        )

        async def send(held: HeldPart[Block]) -> None:
            if self._held is not None:
                await self._held.wait()
            (event,) = held.part.frames.payloads()
            if not self._left:
                self._trouble = "not now"
            if self._trouble:
                sink.failed(held, self._trouble, Failure(math.inf, counts=False))
            elif event == self.never:
                sink.passed(held)
                inlet.reject(held.part, "no peer takes it")
            else:
                self._got.append(event)
                self._left -= 1
                sink.passed(held)
                inlet.ack(held.part)

        await sink.run(send)

    def got(self) -> Sequence[bytes]:
        return self._got

    def fail(self) -> None:
        self._trouble = "not now"

    def fail_otherwise(self) -> None:
        self._trouble = "not any more"

    def fail_after(self, events: int) -> None:
        self._left = events

    def mend(self) -> None:
        self._trouble, self._left = "", 1_000_000

    def hold(self, scheduler: VirtualScheduler) -> None:
        self._held = asyncio.Event()

    def release(self, scheduler: VirtualScheduler) -> None:
        if self._held is not None:
            self._held.set()


test_requests = sink_promises(
    RequestsSubject,
    without={
        "a_stop_waits_for_what_is_under_way": "a request is cancelled, and its events fail",
    },
)


class BehindOutlet(SinkSubject):
    """One that sends on what it takes: what it has sent has arrived. While `taking`, its sinks ack it."""

    def __init__(self) -> None:
        self.out: MemoryOutlet | None = None
        self.taking = True
        self._got: list[bytes] = []
        self._seen = 0

    async def open(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        raise NotImplementedError

    async def again(self) -> RunsSink:
        return self

    def opened(self, out: Outlet) -> None:
        self.got()
        self._seen = 0
        self.out = cast(MemoryOutlet, out)

    def got(self) -> Sequence[bytes]:
        if self.out is not None:
            new = self.out.sent[self._seen :]
            self._seen += len(new)
            self._got += [event for block in new for event in block.frames.payloads() if event != FILLING]
            if self.taking:
                sent, self.out.sent, self._seen = self.out.sent, [], 0
                for block in sent:
                    block.receipt.ack("a sink")
        return self._got

    async def close(self) -> None:
        self.mend()
        self.got()

    def mend(self) -> None:
        self.taking = True


class MemorySubject(BehindOutlet):
    """In trouble, its buffer is full and no sink takes anything."""

    notices = True
    never = b'"' + b"x" * 50_000 + b'"'

    def __init__(self) -> None:
        super().__init__()
        self._inlet: MemoryInlet | None = None

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        self.opened(out)
        self._inlet = cast(MemoryInlet, inlet)
        await Memory(max_elements=ROOM, max_bytes=50_000).run(inlet, out)

    def fail(self) -> None:
        self.got()
        self.taking = False
        inlet = self._inlet
        assert isinstance(inlet, WatchedInlet)
        block = inlet.lines_of(*[FILLING] * ROOM)
        inlet.give(block)
        inlet.given.remove(block)  # it is none of the trial's
        inlet.settled.remove(block.receipt)
        inlet.acked.remove(block.frames.data)

    def mend(self) -> None:
        super().mend()
        self.got()


test_memory = sink_promises(
    MemorySubject,
    without={
        "the_waits_grow_and_begin_anew_after_a_success": "it tries nothing: an ack of its sinks makes room",
        "where_others_take_its_events_it_holds_none_before_it_can_deliver": "it has room from the start",
    },
)


class LogSubject(BehindOutlet):
    """A log on a disk that gets full."""

    never = b'"' + b"x" * 300_000 + b'"'

    def __init__(self) -> None:
        super().__init__()
        self._disk = MemoryDisk()
        self._config = Wal(path="/log", chunk_size=1 << 16, max_chunks=4)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        self.opened(out)
        await self._config.relay(Log(self._config.options(), self._disk), inlet, out)

    def fail(self) -> None:
        self._fail(errno.ENOSPC)

    def fail_otherwise(self) -> None:
        self._fail(errno.EDQUOT)

    def _fail(self, number: int) -> None:
        self._disk.fault = lambda operation, path: number if operation == "write" and ".wal" in path else None

    def mend(self) -> None:
        super().mend()
        self._disk.fault = None

    def hold(self, scheduler: VirtualScheduler) -> None:
        scheduler.hanging = True

    def release(self, scheduler: VirtualScheduler) -> None:
        scheduler.hanging = False


test_log = sink_promises(LogSubject)
