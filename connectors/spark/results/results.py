"""What Spark's queries bring back: staged by tasks, published by the driver once per (query, batch), sent on `out`.

Spark asks for a batch again until it hears that it is published, after kills of either side too, and always writes it
anew before that. So a publication is made of four steps, each durable before the next one begins:

    1  its stages are whole files                                   (staging.py)
    2  the intent says which, and at which position the first row will stand      (publications.py)
    3  the rows are appended to the log, one record a commit
    4  the batch is published, and there is no intent any more: one and the same write

Killed before 2, nothing has happened: Spark publishes the same stages again, or writes others and publishes those.
Killed between 2 and 4, the next start goes on with 3. How far it came follows from what the log calls durable: nobody
else appends to it, positions are rows, and with one record a commit what is durable has no holes, for commit k + 1
is written only after commit k was synced. A record torn by the crash is not durable, its positions are given anew.
Killed after 4, Spark asks again and is told that it is published; the stages that are still there die of age.

Between the log and `out` it is as with any log: what is durable is sent until it is acked, and may come twice.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from connectors.spark.config import SparkConfig
from connectors.spark.results.publications import Publications, PublishIntent
from connectors.spark.results.staging import Staging, StagingLimits, StagingRun, too_large
from pyspark_walflow.wire import Code, RequestRefused
from walflow import Backoff, Block, DiskFull, Frames, Inlet, Outlet, Receipt, StreamId, Unusable, WalflowError
from walflow.disk import Disk
from walflow.framing import LINES
from walflow.relay import Checkpoints, LogSource
from walflow.relay.tag import Tags
from walflow.wal import Log, LogOptions
from walflow.wal.directory import FULL

RECORD_BYTES: Final = 64  # of a record beside tag and payload, at most
TAG_BYTES: Final = 1024  # at most
MAX_QUERY: Final = 200  # characters of its id
SWEEP_SECONDS: Final = 60.0
FIRST_RETRY: Final = 0.1  # seconds, on a full disk
LONGEST_RETRY: Final = 1.0

T = TypeVar("T")


class Results:
    """Opens its log, and goes on with what a crash interrupted. Its methods raise Refused.

    `run`: how staging gets off the loop; by default to a thread of its own, for it must not keep commits waiting.
    """

    def __init__(
        self,
        config: SparkConfig,
        inlet: Inlet,
        out: Outlet,
        *,
        disk: Disk | None = None,
        run: StagingRun | None = None,
    ) -> None:
        self._out = out
        self._log = log = Log(LogOptions(f"{config.path}/results", config.chunk_size, config.max_chunks), disk)
        self._max_batch = config.max_result_bytes
        self._thread = ThreadPoolExecutor(1, "staging")
        self._run: StagingRun = run or self._on_staging_thread
        self._tags = Tags()
        self._turn = asyncio.Lock()  # one publication at a time
        self._woken = asyncio.Event()
        self._closing = False
        self._tasks: set[asyncio.Task[object]] = set()
        self._batches = out.counter("spark_published_batches_total")
        self._rows = out.counter("spark_published_rows_total")
        self._repeated = out.counter("spark_repeated_batches_total")
        self._publications = Publications(log.directory)
        self._staging = Staging(
            f"{config.path}/staging",
            log.disk,
            self._run,
            out.scheduler.time,
            out.codec,
            StagingLimits(config.max_result_bytes, max(0, min(config.max_result_bytes, log.max_record - TAG_BYTES))),
            out.counter("spark_orphaned_stages_total"),
        )
        try:
            self._open(config.path)
        except BaseException:
            log.abandon()
            raise
        out.gauge("spark_staged_bytes", lambda: self._staging.size)
        out.gauge("spark_results_fill_ratio", lambda: log.fill)
        self._checkpoints = Checkpoints(log, out.scheduler, inlet, self._woken.set)
        self._reader = LogSource(log, out, self._tags, self._checkpoints)
        out.gauge("spark_results_backlog_events", self._reader.backlog)
        self._reader.pump()
        self._task(self._resume())
        out.scheduler.call_later(SWEEP_SECONDS, self._sweep)

    def __repr__(self) -> str:
        return f"<Results {self._log!r} {self._staging!r} {self._publications!r}>"

    async def stage(self, name: str, lines: AsyncIterator[bytes]) -> tuple[int, int]:
        """Rows and bytes, durable now. `lines`: pieces of JSON lines, cut anywhere; the last one ends in a newline."""
        staged = await self._staging.add(name, lines)
        self._out.log.debug("staged", stage=name, rows=staged.rows)
        return staged.rows, staged.size

    async def publish(self, query: str, batch: int, names: Sequence[str]) -> tuple[bool, int]:
        """Whether it was published by this call, and its rows. A caller that is cancelled while it waits stops nothing."""
        return await asyncio.shield(self._task(self._publish(query, batch, names)))

    async def abort(self, names: Sequence[str]) -> None:
        self._out.log.debug("aborted", stages=len(names))
        await self._staging.remove(names)

    async def close(self) -> None:
        """A publication in hand is left to the next start, after the commit in the air."""
        self._closing = True
        self._woken.set()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._checkpoints.stop()
        await self._on_log_thread(_nothing)  # after what the thread has in hand, and its log has heard of it
        await self._on_log_thread(self._log.close)
        if self._log.failure is not None:
            self._out.fatal(self._log.failure)
        self._thread.shutdown(wait=False)

    def _open(self, path: str) -> None:
        """Raises Unusable, DiskFull or FailStop."""
        out, log = self._out, self._log
        for line in log.recovery.lines():
            out.log.info("recovery", found=line, log="results")
        try:
            damage = self._publications.load()
            self._staging.open()
            log.disk.sync_directory(path)
        except OSError as error:
            said = f"{error.filename or path}: {error.strerror}"
            raise (DiskFull if error.errno in FULL else Unusable)(said) from error
        if damage:
            out.log.error("publications lost", found=damage)
        intent = self._publications.intent
        if intent is None:
            return
        if intent.log != log.uuid or log.durable + 1 < intent.first:  # it is another log, or not what it was
            self._publications.begin(intent._replace(log=log.uuid, first=log.next))
        self._staging.held = frozenset(intent.names)

    # Publishing

    async def _publish(self, query: str, batch: int, names: Sequence[str]) -> tuple[bool, int]:
        if not 0 < len(query) <= MAX_QUERY or batch < 0:
            raise RequestRefused(Code.PROTOCOL, f"a query's id has 1 to {MAX_QUERY} characters, a batch is 0 or more")
        async with self._turn:
            self._still_open()
            if self._publications.intent is not None:
                await self._finish()
            last = self._publications.last(query)
            if last is not None and batch <= last.batch:
                self._repeated.value += 1
                self._out.log.info("published already", query=query, batch=batch, last=last.batch)
                await self._staging.remove(names)
                return False, last.rows if batch == last.batch else 0
            intent = PublishIntent(query, batch, self._log.uuid, self._log.next, self._staging.find(names))
            self._check_size(intent)
            self._staging.held = frozenset(names)
            try:
                await self._on_log_thread(lambda: self._publications.begin(intent))
            except DiskFull as error:
                self._staging.held = frozenset()
                raise RequestRefused(Code.NO_SPACE, str(error)) from error
            await self._finish()
            return True, intent.rows

    async def _resume(self) -> None:
        async with self._turn:
            intent = self._publications.intent
            if intent is None:
                return
            self._out.log.info(
                "publication resumed",
                query=intent.query,
                batch=intent.batch,
                rows=intent.rows,
                done=self._done(intent),
            )
            try:
                await self._finish()
            except RequestRefused as refused:
                self._out.log.warning("publication not finished", reason=str(refused))

    async def _finish(self) -> None:
        """Of the intent: steps 3 and 4. May be done again from its beginning."""
        intent = self._publications.intent
        assert intent is not None
        try:
            await self._append(intent)
        except OSError as error:
            raise await self._give_up(intent, error) from error
        await self._insist(self._publications.end)
        self._staging.held = frozenset()
        self._batches.value += 1
        self._rows.value += intent.rows
        self._out.log.debug("published", query=intent.query, batch=intent.batch, rows=intent.rows)
        await self._staging.remove(intent.names)

    async def _append(self, intent: PublishIntent) -> None:
        """What is not durable yet. Raises OSError where a stage is not what it was."""
        backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
        while (done := self._done(intent)) < intent.rows:
            try:
                await self._append_from(intent, done)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                await self._pause(backoff, f"a stage cannot be read: {error.strerror}")

    async def _append_from(self, intent: PublishIntent, done: int) -> None:
        tag = self._tag(intent)
        await self._run(lambda: self._staging.check(intent.staged))
        blocks = self._staging.lines(intent.staged, self._log.block_cap, done)
        try:
            while (block := await self._run(lambda: next(blocks, None))) is not None:
                await self._commit(tag, *block)
        finally:
            await self._run(blocks.close)

    async def _commit(self, tag: bytes, data: bytes, count: int) -> None:
        """One record, alone in its commit: see above."""
        log = self._log
        self._still_open()
        while not log.fits(len(tag), len(data)):
            await self._room()
        self._checkpoints.want_space(False)
        log.append(tag, data, count, time.time_ns())
        commit = log.commit()
        assert commit is not None
        await self._insist(commit.flush)
        log.committed(commit)
        self._checkpoints.committed()
        self._reader.pump()

    async def _room(self) -> None:
        """Waits for acks, and for the space they give back."""
        if not self._checkpoints.wanted:
            self._out.log.info(
                "results wait", reason=f"their log is full: {self._log.used} of {self._log.budget} bytes"
            )
        self._woken.clear()
        self._checkpoints.want_space(True)
        await self._woken.wait()
        self._still_open()

    async def _give_up(self, intent: PublishIntent, error: OSError) -> RequestRefused:
        """Its stages are spoiled. Spark has not been told that it is published, so it writes them anew."""
        done = self._done(intent)
        await self._insist(self._publications.forget)
        self._staging.held = frozenset()
        await self._staging.remove(intent.names)
        line = f"stage {error.filename} {error.strerror}: the batch must be written again"
        line += f"; {done} of its rows are on their way already and will come twice" if done else ""
        self._out.log.error("publication given up", query=intent.query, batch=intent.batch, reason=line)
        return RequestRefused(Code.UNKNOWN_STAGE, line)

    def _done(self, intent: PublishIntent) -> int:
        """How many of its rows are durable: see above."""
        return min(max(0, self._log.durable + 1 - intent.first), intent.rows)

    def _check_size(self, intent: PublishIntent) -> None:
        """Nothing is begun that could not be ended with every sink idle."""
        if intent.size > self._max_batch:
            raise too_large(f"batch {intent.batch}", intent.size, self._max_batch)
        records = intent.size * 2 // self._log.block_cap + len(intent.staged) + 1
        size = intent.size + records * (RECORD_BYTES + len(self._tag(intent)))
        if size > self._log.budget:
            raise too_large(f"batch {intent.batch}", size, self._log.budget)

    def _tag(self, intent: PublishIntent) -> bytes:
        meta = {"spark": {"query": intent.query, "batch": intent.batch}}
        block = Block(
            StreamId(self._out.name, self._out.run, 0),
            Frames(b"", 0, LINES),
            self._out.codec,
            Receipt(_nobody, 0),
            ingest_ns=0,
            meta=meta,
        )
        block.receipt.ack()
        tag = self._tags.encode(block)
        if len(tag) > TAG_BYTES:
            raise RequestRefused(Code.PROTOCOL, f"a query's id is too long: {len(intent.query)} characters")
        return tag

    # Waiting

    async def _insist(self, call: Callable[[], None]) -> None:
        """Until there is space for it."""
        backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
        while True:
            try:
                return await self._on_log_thread(call)
            except DiskFull as error:
                await self._pause(backoff, str(error))

    async def _pause(self, backoff: Backoff, reason: str) -> None:
        if not backoff.failures:
            self._out.log.warning("results wait", reason=reason)
        self._still_open()
        self._woken.clear()
        self._out.scheduler.call_later(backoff.next(), self._woken.set)
        await self._woken.wait()
        self._still_open()

    def _still_open(self) -> None:
        if self._closing:
            raise RequestRefused(Code.STOPPING, "walflow stops; the batch is published after its next start")

    def _sweep(self) -> None:
        self._task(self._staging.sweep())
        self._out.scheduler.call_later(SWEEP_SECONDS, self._sweep)

    def _task(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve)
        return task

    async def _on_log_thread(self, call: Callable[[], None]) -> None:
        """In order with the log's checkpoints. A log that can promise nothing any more ends the process."""
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._out.scheduler.submit(call, lambda error: None if ended.done() else ended.set_result(error))
        error = await ended
        if error is None:
            return
        if isinstance(error, DiskFull):
            raise error
        self._out.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))

    def _on_staging_thread(self, call: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, call)


def _retrieve(task: asyncio.Task[object]) -> None:
    """The caller may be gone: then a refusal is not told, and need not be."""
    if not task.cancelled() and isinstance(task.exception(), RequestRefused):
        return


def _nobody(receipt: Receipt) -> None: ...


def _nothing() -> None: ...
