"""A followed file, a log and a sink, built from a flow file as the daemon builds them: real files, a log on a disk in
memory, in virtual time."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from connectors.file.follow import Following, follow
from tests.delivery.assembled import assembled
from tests.delivery.in_a_row import HalfRow, LastSink
from tests.flows.builder import NULL, flow_of, lines_in, plain
from tests.nodes.world import World
from walflow import Block
from walflow.disk import RealDisk
from walflow.nodes.build import build
from walflow.receipt import Receipt
from walflow.testing import MemoryDisk

STEP = 0.05  # seconds of virtual time

LINES_IN = lines_in("file", path="app*.log", mode="read", follow=True)
LOG = plain("wal", path="/log", chunk_size=2048, max_chunks=256)

PASSED = """
  create pipeline p from pipelines::passthrough;
  connect /connector/lines to /pipeline/p;
  connect /pipeline/p to /connector/log;
"""
SELECTED = """
  define pipeline p pipeline
    select {"id": event.id, "made": 1} from in where event.id % 3 != 1 into out;
  end;
  create pipeline p;
  connect /connector/lines to /pipeline/p;
  connect /pipeline/p to /connector/log;
"""


class MortalDisk(RealDisk):
    """`stuck`: no checkpoint is written. `dead`: nothing at all, as after kill -9."""

    def __init__(self) -> None:
        self.stuck = self.dead = False

    def rename(self, source: str, target: str) -> None:
        if self.stuck or self.dead:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().rename(source, target)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        if self.dead:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().write(fd, parts, offset)


class FollowedRow:
    """One life. `delivered`: by its position in the log, each event that the log sent. `settled`: events that the log
    took, and acked upstream."""

    def __init__(
        self, directory: Path, body: str, disk: MemoryDisk, boot: str = "one", names: str = "app*.log"
    ) -> None:
        self.world = World()
        self.disk = disk
        self.checkpoints = MortalDisk()
        self.delivered: dict[int, int] = {}
        self._config = Following(str(directory / names), False, 0.2, 0.4, 8, str(directory / "state"))
        self._boot = boot
        self._came: list[tuple[Receipt, list[int]]] = []
        nodes = build(
            assembled(flow_of("log -> last", beside=body, lines=LINES_IN, log=LOG, last=NULL)), self.world.metrics
        )
        by_name = {one.plan.id.name: one for one in nodes.connectors}
        for operator in nodes.operators:
            operator.node.begin(self.world.scheduler)
        self.last = LastSink(by_name["last"], self.world, self.delivered)
        self.log = HalfRow(by_name["log"], self.world, disk)
        self.log.nodes.sink.serve(self._accept)
        self.last.start()
        self._lines = by_name["lines"]
        self.outlet = self._lines.source.begin(self.world.context("main::lines"))

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(follow(self._config, self.outlet, self.checkpoints, lambda: self._boot))
        await self.passing(4 * STEP)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.crash()

    async def passing(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / STEP))):
            self.world.scheduler.advance(STEP)
            await self.world.scheduler.settle()
        if self._task.done():
            await self._task

    async def crash(self) -> None:
        """kill -9."""
        if self.checkpoints.dead:
            return
        self.checkpoints.dead = True
        self.log.stop()
        self._void()
        self.log.log.abandon()
        await self._end()

    async def close(self) -> None:
        await self._end()
        self.log.stop()
        self._void()
        self.world.scheduler.run()
        self.log.log.close()
        self.checkpoints.dead = True

    def ack(self) -> None:
        while self.last.waiting:
            self.last.ack()
            self.world.scheduler.run()

    def settled(self) -> set[int]:
        return {id for receipt, ids in self._came if not receipt.pending and receipt.cause is None for id in ids}

    def known(self) -> int:
        return self.world.count("wal_known_events_total")

    def content(self) -> list[int]:
        return [id for _, id in sorted(self.delivered.items())]

    def _accept(self, block: Block) -> None:
        self._came.append((block.receipt, [value["id"] for value in block.values]))  # type: ignore[index]
        self.log.accept(block)

    async def _end(self) -> None:
        self._task.cancel()
        while not self._task.done():
            await self.world.scheduler.settle()
        self._lines.source.end()

    def _void(self) -> None:
        self._came = [one for one in self._came if not one[0].pending]
        for block in self.last.waiting:
            block.receipt.settled, block.receipt.pending = _nothing, 0
        self.last.waiting.clear()


def _nothing(receipt: Receipt) -> None: ...
