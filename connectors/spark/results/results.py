"""The results of Spark's queries, for one run of the connector."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self, TypeVar

from connectors.spark.config import SparkConfig
from connectors.spark.results.publications import Publications
from connectors.spark.results.publisher import Publisher
from connectors.spark.results.result_log import TAG_BYTES, ResultLog
from connectors.spark.results.staging import Staging, StagingLimits, StagingRun
from connectors.spark.serial_tasks import SerialTasks
from walflow import DiskFull, Inlet, Outlet, Unusable
from walflow.files import Disk
from walflow.wal import FULL, Log, LogOptions

SWEEP_SECONDS: Final = 60.0

T = TypeVar("T")


class Results:
    """The interface for sessions. Its methods raise RequestRefused."""

    def __init__(
        self, out: Outlet, log: ResultLog, staging: Staging, publishing: Publisher, thread: ThreadPoolExecutor
    ) -> None:
        self.log = log
        self._out = out
        self._staging = staging
        self._publishing = publishing
        self._thread = thread
        self._turns = SerialTasks()  # of publications

    @classmethod
    def open(
        cls,
        config: SparkConfig,
        inlet: Inlet,
        out: Outlet,
        *,
        disk: Disk | None = None,
        run: StagingRun | None = None,
    ) -> Self:
        """Opens the results, and completes a publication that a crash interrupted. `run`: how staging leaves the
        loop; by default on its own thread, because it must not delay commits.
        Raises Unusable, DiskFull or FailStop."""
        thread = ThreadPoolExecutor(1, "staging")

        def on_thread(call: Callable[[], T]) -> Awaitable[T]:
            return asyncio.get_running_loop().run_in_executor(thread, call)

        log = Log(LogOptions(f"{config.path}/results", config.chunk_size, config.max_chunks), disk)
        publications = Publications(log.directory)
        staging = Staging(
            f"{config.path}/staging",
            log.disk,
            run or on_thread,
            out.scheduler.time,
            out.codec,
            StagingLimits(config.max_result_bytes, max(0, min(config.max_result_bytes, log.max_record - TAG_BYTES))),
            out.counter("spark_orphaned_stages_total"),
        )
        try:
            _recover(config.path, log, publications, staging, out)
        except BaseException:
            log.abandon()
            raise
        out.gauge("spark_staged_bytes", lambda: staging.size)
        rows = ResultLog(log, inlet, out)
        publishing = Publisher(publications, staging, rows, out, config.max_result_bytes)
        results = cls(out, rows, staging, publishing, thread)
        results._turns.begin(publishing.resume)
        out.scheduler.call_later(SWEEP_SECONDS, results._sweep)
        return results

    def __repr__(self) -> str:
        return f"<Results {self.log!r} {self._staging!r} {self._publishing!r}>"

    async def stage(self, name: str, lines: AsyncIterator[bytes]) -> tuple[int, int]:
        """Stages rows and returns the number of rows and bytes; they are durable. `lines`: pieces of JSON lines, cut
        anywhere; the last line ends in a newline."""
        staged = await self._staging.add(name, lines)
        self._out.log.debug("staged", stage=name, rows=staged.rows)
        return staged.rows, staged.size

    async def publish(self, query: str, batch: int, names: Sequence[str]) -> tuple[bool, int]:
        """Publishes a batch. Returns whether this call has published it, and its rows. Cancelling a caller that waits
        stops nothing."""
        return await self._turns.take(lambda: self._publishing.publish(query, batch, names))

    async def abort(self, names: Sequence[str]) -> None:
        self._out.log.debug("aborted", stages=len(names))
        await self._staging.remove(names)

    async def close(self) -> None:
        """Closes the results after the commit that is running. The next start completes a publication that is not
        complete."""
        self.log.refuse()
        await self._turns.end()
        await self.log.close()
        self._thread.shutdown(wait=False)

    def _sweep(self) -> None:
        self._turns.beside(self._staging.sweep())
        self._out.scheduler.call_later(SWEEP_SECONDS, self._sweep)


def _recover(path: str, log: Log, publications: Publications, staging: Staging, out: Outlet) -> None:
    """Recovers the files of the last run. Raises Unusable, DiskFull or FailStop."""
    for line in log.recovery.lines():
        out.log.info("recovery", found=line, log="results")
    try:
        damage = publications.load()
        staging.open()
        log.disk.sync_directory(path)
    except OSError as error:
        said = f"{error.filename or path}: {error.strerror}"
        raise (DiskFull if error.errno in FULL else Unusable)(said) from error
    if damage:
        out.log.error("publications lost", found=damage)
    intent = publications.intent
    if intent is None:
        return
    if intent.log != log.uuid or log.durable + 1 < intent.first:  # it is another log, or not what it was
        publications.begin(intent._replace(log=log.uuid, first=log.next))
    staging.held = frozenset(intent.names)
