"""A batch is published once, however often Spark asks for it.

Spark asks for a batch again until it hears that it is published, after kills of either side too, and always writes it
anew before that. So a publication is made of four steps, each durable before the next one begins:

    1  its stages are whole files                                   (staging.py)
    2  the intent says which, and at which position the first row will stand      (publications.py)
    3  the rows are appended to the log, one record a commit
    4  the batch is published, and there is no intent any more: one and the same write

Killed before 2, nothing has happened: Spark publishes the same stages again, or writes others and publishes those.
Killed between 2 and 4, the next start goes on with 3. How far it came follows from what the log calls durable: no
other process appends to it, positions are rows, and with one record a commit what is durable has no holes, for commit
k + 1 is written only after commit k was synced. A record torn by the crash is not durable, its positions are given
anew. Killed after 4, Spark asks again and is told that it is published; the stages that are still there die of age.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from connectors.spark.results.publications import Publications, PublishIntent
from connectors.spark.results.result_log import FIRST_RETRY, LONGEST_RETRY, ResultLog
from connectors.spark.results.staging import Staging, too_large
from connectors.spark.serial_tasks import on_log_thread
from pyspark_walflow.wire import Code, RequestRefused
from walflow import Backoff, DiskFull, Outlet
from walflow.wal import FULL

MAX_QUERY: Final = 200  # characters of its id


class Publisher:
    """`publish` and `resume` are to be called one at a time."""

    def __init__(
        self, publications: Publications, staging: Staging, rows: ResultLog, out: Outlet, max_batch: int
    ) -> None:
        self._publications = publications
        self._staging = staging
        self._rows = rows
        self._out = out
        self._max_batch = max_batch  # bytes
        self._batches = out.counter("spark_published_batches_total")
        self._published_rows = out.counter("spark_published_rows_total")
        self._repeated = out.counter("spark_repeated_batches_total")

    def __repr__(self) -> str:
        return f"<Publisher {self._publications!r}>"

    async def publish(self, query: str, batch: int, names: Sequence[str]) -> tuple[bool, int]:
        """Publishes a batch. Returns whether this call has published it, and its rows. Raises RequestRefused."""
        if not 0 < len(query) <= MAX_QUERY or batch < 0:
            raise RequestRefused(Code.PROTOCOL, f"a query's id has 1 to {MAX_QUERY} characters, a batch is 0 or more")
        self._rows.still_open()
        if self._publications.intent is not None:
            await self._finish()
        last = self._publications.last(query)
        if last is not None and batch <= last.batch:
            self._repeated.value += 1
            self._out.log.info("published already", query=query, batch=batch, last=last.batch)
            await self._staging.remove(names)
            return False, last.rows if batch == last.batch else 0
        intent = PublishIntent(query, batch, self._rows.log.uuid, self._rows.log.next, self._staging.find(names))
        self._check_size(intent)
        self._staging.held = frozenset(names)
        try:
            await on_log_thread(self._out, lambda: self._publications.begin(intent))
        except DiskFull as error:
            self._staging.held = frozenset()
            raise RequestRefused(Code.NO_SPACE, str(error)) from error
        await self._finish()
        return True, intent.rows

    async def resume(self) -> None:
        """Completes a publication that a crash interrupted."""
        intent = self._publications.intent
        if intent is None:
            return
        self._out.log.info(
            "publication resumed", query=intent.query, batch=intent.batch, rows=intent.rows, done=self._done(intent)
        )
        try:
            await self._finish()
        except RequestRefused as refused:
            self._out.log.warning("publication not finished", reason=str(refused))

    async def _finish(self) -> None:
        """Steps 3 and 4 of the intent. May be repeated from the beginning."""
        intent = self._publications.intent
        assert intent is not None
        try:
            await self._append(intent)
        except OSError as error:
            raise await self._give_up(intent, error) from error
        await self._rows.insist(self._publications.end)
        self._staging.held = frozenset()
        self._batches.value += 1
        self._published_rows.value += intent.rows
        self._out.log.debug("published", query=intent.query, batch=intent.batch, rows=intent.rows)
        await self._staging.remove(intent.names)

    async def _append(self, intent: PublishIntent) -> None:
        """Appends the rows that are not durable yet. Raises OSError if a stage has changed."""
        tag = self._rows.tag(intent.query, intent.batch)
        backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
        while (done := self._done(intent)) < intent.rows:
            try:
                async with aclosing(self._staging.blocks(intent.staged, self._rows.log.block_cap, done)) as blocks:
                    async for data, count in blocks:
                        await self._rows.append(tag, data, count)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                await self._rows.pause(backoff, f"a stage cannot be read: {error.strerror}")

    async def _give_up(self, intent: PublishIntent, error: OSError) -> RequestRefused:
        """Gives up a batch with damaged stages. Spark has no answer that it is published, so it writes the stages
        again."""
        done = self._done(intent)
        await self._rows.insist(self._publications.forget)
        self._staging.held = frozenset()
        await self._staging.remove(intent.names)
        line = f"stage {error.filename} {error.strerror}: the batch must be written again"
        line += f"; {done} of its rows are on their way already and will come twice" if done else ""
        self._out.log.error("publication given up", query=intent.query, batch=intent.batch, reason=line)
        return RequestRefused(Code.UNKNOWN_STAGE, line)

    def _done(self, intent: PublishIntent) -> int:
        """The number of its rows that are durable: see above."""
        return min(max(0, self._rows.log.durable + 1 - intent.first), intent.rows)

    def _check_size(self, intent: PublishIntent) -> None:
        """Refuses a batch that does not fit even if every sink has acked everything."""
        if intent.size > self._max_batch:
            raise too_large(f"batch {intent.batch}", intent.size, self._max_batch)
        tag = self._rows.tag(intent.query, intent.batch)
        size = self._rows.most_bytes(tag, intent.size, len(intent.staged))
        if size > self._rows.log.budget:
            raise too_large(f"batch {intent.batch}", size, self._rows.log.budget)
