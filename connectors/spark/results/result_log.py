"""The log of published rows: appended one record per commit, sent on `out` until they are acked. As with any log, a
durable row may come twice."""

import asyncio
from collections.abc import Callable
from typing import Final

from connectors.spark.serial_tasks import on_log_thread
from pyspark_walflow.wire import Code, RequestRefused
from walflow import Backoff, Block, DiskFull, Frames, Inlet, Outlet, Receipt, StreamId
from walflow.delivery import Checkpoints, LogSource, Tags
from walflow.framing import LINES
from walflow.wal import Log
from walflow.world import wall_ns

TAG_BYTES: Final = 1024  # at most
RECORD_BYTES: Final = 64  # of a record beside tag and payload, at most
FIRST_RETRY: Final = 0.1  # seconds, on a full disk
LONGEST_RETRY: Final = 1.0


class ResultLog:
    """Its methods raise RequestRefused when it is closing."""

    def __init__(self, log: Log, inlet: Inlet, out: Outlet) -> None:
        self.log = log
        self._out = out
        self._tags = Tags()
        self._woken = asyncio.Event()  # space came back, a pause is over, or it closes
        self._closing = False
        self._checkpoints = Checkpoints(log, out.scheduler, inlet, self._woken.set)
        self._source = LogSource(log, out, self._tags, self._checkpoints)
        out.gauge("spark_results_fill_ratio", lambda: log.fill)
        out.gauge("spark_results_backlog_events", self._source.backlog)
        self._source.pump()

    def __repr__(self) -> str:
        return repr(self.log)

    def tag(self, query: str, batch: int) -> bytes:
        """The tag for the records of a batch."""
        out = self._out
        stream, nothing = StreamId(out.name, out.run, 0), Frames(b"", 0, LINES)
        meta = {"spark": {"query": query, "batch": batch}}
        block = Block(stream, nothing, out.codec, Receipt(_nobody, 0), ingest_ns=0, meta=meta)
        block.receipt.ack()
        tag = self._tags.encode(block)
        if len(tag) > TAG_BYTES:
            raise RequestRefused(Code.PROTOCOL, f"a query's id is too long: {len(query)} characters")
        return tag

    def most_bytes(self, tag: bytes, size: int, stages: int) -> int:
        """The most bytes that this many bytes of rows can take in the log."""
        records = size * 2 // self.log.block_cap + stages + 1
        return size + records * (RECORD_BYTES + len(tag))

    async def append(self, tag: bytes, data: bytes, count: int) -> None:
        """Appends one record, alone in its commit. It is durable when the call returns. Waits for acks if the log is
        full."""
        log = self.log
        self.still_open()
        while not log.fits(len(tag), len(data)):
            await self._room()
        self._checkpoints.want_space(False)
        log.append(tag, data, count, wall_ns())
        commit = log.commit()
        assert commit is not None
        await self.insist(commit.flush)
        log.committed(commit)
        self._checkpoints.committed()
        self._source.pump()

    async def insist(self, call: Callable[[], None]) -> None:
        """Repeats a call on the log's thread until the disk has space for it."""
        backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
        while True:
            try:
                return await on_log_thread(self._out, call)
            except DiskFull as error:
                await self.pause(backoff, str(error))

    async def pause(self, backoff: Backoff, reason: str) -> None:
        if not backoff.failures:
            self._out.log.warning("results wait", reason=reason)
        self.still_open()
        self._woken.clear()
        self._out.scheduler.call_later(backoff.next(), self._woken.set)
        await self._woken.wait()
        self.still_open()

    def still_open(self) -> None:
        if self._closing:
            raise RequestRefused(Code.STOPPING, "walflow stops; the batch is published after its next start")

    def refuse(self) -> None:
        """Ends the wait of all callers."""
        self._closing = True
        self._woken.set()

    async def close(self) -> None:
        self._source.stop()
        self._checkpoints.stop()
        await on_log_thread(self._out, _nothing)  # after what the thread has in hand, and its log has heard of it
        await on_log_thread(self._out, self.log.close)
        if self.log.failure is not None:
            self._out.fatal(self.log.failure)

    async def _room(self) -> None:
        """Waits for acks and for the space that they free."""
        if not self._checkpoints.wanted:
            self._out.log.info(
                "results wait", reason=f"their log is full: {self.log.used} of {self.log.budget} bytes"
            )
        self._woken.clear()
        self._checkpoints.want_space(True)
        await self._woken.wait()
        self.still_open()


def _nobody(receipt: Receipt) -> None: ...


def _nothing() -> None: ...
