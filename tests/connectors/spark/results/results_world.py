"""Results without a daemon: inline staging, virtual time, and Spark's side of the conversation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from connectors.spark.config import SparkConfig
from connectors.spark.results.results import Results
from walflow.codecs import JSON
from walflow.disk import Disk
from walflow.event import Codec
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.wal import Log, Record

T = TypeVar("T")

PATH = "/spark"


async def inline(call: Callable[[], T]) -> T:
    return call()


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def rows_of(name: str, count: int, size: int = 0) -> list[bytes]:
    return [b'{"row":"%s-%d%s"}' % (name[:8].encode(), number, b"x" * size) for number in range(count)]


class Bench:
    """One life of the connector's results. `paused`: nothing goes out, and so everything stays in the log."""

    def __init__(
        self,
        disk: Disk,
        path: str = PATH,
        *,
        paused: bool = True,
        chunk_size: int = 64 << 10,
        max_chunks: int = 16,
        max_result_bytes: int = 1 << 20,
        codec: Codec = JSON,
    ) -> None:
        self.scheduler = VirtualScheduler()
        self.out = MemoryOutlet(self.scheduler, name="f::spark", paused=paused)
        self.out.codec = codec
        self.inlet = MemoryInlet(self.scheduler, name="f::spark")
        config = SparkConfig(
            path=path, chunk_size=chunk_size, max_chunks=max_chunks, max_result_bytes=max_result_bytes
        )
        self.results = Results.open(config, self.inlet, self.out, disk=disk, run=inline)

    @property
    def log(self) -> Log:
        return self.results.log.log

    async def finish(self, work: Coroutine[object, object, T] | Awaitable[T]) -> T:
        """What it comes to, as everything else goes on."""
        task = asyncio.ensure_future(work)
        for _ in range(100_000):
            if task.done():
                return task.result()
            self.scheduler.run()
            await asyncio.sleep(0)
        raise AssertionError(f"it never ends: {self.results!r}")

    async def stage(self, name: str, lines: Sequence[bytes]) -> tuple[int, int]:
        return await self.finish(self.results.stage(name, pieces(*(line + b"\n" for line in lines))))

    async def publish(self, query: str, batch: int, *names: str) -> tuple[bool, int]:
        return await self.finish(self.results.publish(query, batch, names))

    async def close(self) -> None:
        await self.finish(self.results.close())

    def records(self) -> list[Record]:
        """What is durable, from the log's beginning on."""
        reader = self.log.reader(1)
        try:
            return reader.read(1 << 30)
        finally:
            reader.close()

    def rows(self) -> list[bytes]:
        return [line for record in self.records() for line in record.payload.splitlines()]

    def sent(self) -> list[bytes]:
        return [line for block in self.out.sent for line in block.frames.payloads()]

    def ack_all(self) -> None:
        for block in self.out.sent:
            if block.receipt.pending:
                block.receipt.ack("f::file")

    async def settle(self) -> None:
        await self.scheduler.settle()
