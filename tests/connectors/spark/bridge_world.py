"""The connector with a real loop, log and socket, between an inlet and an outlet that the test holds."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

from connectors.spark import Spark
from pyspark_walflow import wire
from pyspark_walflow.client import Client, Endpoint, LostPositions
from pyspark_walflow.local_files import FilePart
from pyspark_walflow.wire import FrameKind, WireKey
from tests.waiting import PATIENCE, until
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow_kernel import log_records

TOKEN = "a token that is long enough"
T = TypeVar("T")


class World:
    """One life of a connector."""

    def __init__(self, path: Path, *, linked: bool = False, **config: object) -> None:
        given = {"path": str(path), "url": "127.0.0.1:0", "token": TOKEN, **config}
        self.spark = Spark.model_validate({key: value for key, value in given.items() if value is not None})
        scheduler = LoopScheduler("test")
        self._close = scheduler.close
        self.inlet = MemoryInlet(cast(VirtualScheduler, scheduler))
        self.outlet = MemoryOutlet(cast(VirtualScheduler, scheduler), linked=linked)
        self.port = 0
        self._given = 0
        self._peers: list[Peer] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["World"]:
        task = asyncio.ensure_future(self.spark.run(self.inlet, self.outlet))
        try:
            await self.until(lambda: self.said("listening") or task.done())
            if task.done():
                task.result()
            self.port = int(str(self.said("listening")[0]["address"]).rsplit(":", 1)[1])
            yield self
        finally:
            for peer in self._peers:
                peer.close()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._close()

    def said(self, event: str) -> list[dict[str, object]]:
        return [dict(entry) for entry in self.outlet.logged if entry["event"] == event]

    def refusals(self) -> list[object]:
        return [entry["code"] for entry in self.said("refused")]

    async def until(self, happened: Callable[[], object]) -> None:
        await until(happened, lambda: self.outlet.logged)

    async def give(self, *lines: bytes) -> None:
        """A block of them, durable when it returns."""
        self.inlet.give(self.inlet.lines_of(*lines))
        self._given += 1
        await self.until(lambda: len(self.inlet.settled) == self._given)

    async def client(
        self, key: WireKey | None = None, log: str | None = None, endpoint: Endpoint | None = None
    ) -> "Peer":
        endpoint = endpoint or Endpoint("127.0.0.1", self.port)
        self._peers.append(Peer(await asyncio.to_thread(Client, endpoint, key or WireKey.of_token(TOKEN), log)))
        return self._peers[-1]

    async def raw(self) -> "Raw":
        return Raw(*await asyncio.open_connection("127.0.0.1", self.port))


class Peer:
    """Spark's side; its calls block a thread."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.log = client.log

    async def call(self, kind: FrameKind, **fields: object) -> dict[str, object]:
        return await asyncio.to_thread(self.client.call, kind, fields)

    async def read(self, first: int, end: int, consumer: str = "spark", *, files: bool = False) -> "Read":
        return await asyncio.to_thread(lambda: Read(self.client.read(first, end, consumer, files=files)))

    def close(self) -> None:
        self.client.close()


class Read:
    """All that READ gave."""

    def __init__(self, found: Iterator[tuple[int, memoryview] | LostPositions | FilePart]) -> None:
        self.lost: list[LostPositions] = []
        self.places: list[FilePart] = []
        self.sizes: list[int] = []
        self.lines: dict[int, bytes] = {}  # by position
        for one in found:
            if isinstance(one, LostPositions):
                self.lost.append(one)
            elif isinstance(one, FilePart):
                self.places.append(one)
            else:
                self.sizes.append(len(one[1]))
                self.lines |= lines_of(bytes(one[1]))


def lines_of(data: bytes) -> dict[int, bytes]:
    """By position, the lines of whole records."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        _, length, position, _, _, count, _, tag, _, _ = log_records.RECORD.unpack_from(data, at)
        lines = data[at + 48 + tag : at + 48 + length].split(b"\n")[:-1]
        assert len(lines) == count
        found |= {position + number: line for number, line in enumerate(lines)}
        at += (48 + length + 7) & ~7
    return found


class Raw:
    """A peer that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> tuple[FrameKind, dict[str, object]]:
        async with asyncio.timeout(PATIENCE):
            size, _, kind = wire.HEADER.unpack(await self.reader.readexactly(9))
            return FrameKind(kind), wire.fields_of(await self.reader.readexactly(size))

    async def rest(self) -> bytes:
        """Until it is closed."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    def reset(self) -> None:
        """Gone at once, without a goodbye."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
