"""`df.writeStream.format("walflow")` and `df.write.format("walflow")`: rows become results on the connector's `out`.

Each task stages its rows under a name drawn at random, the driver publishes the names of a batch. The daemon takes a
(query, batch) once, so that both may be asked for again until an answer comes. Tasks get a ticket for staging; the
token stays with the driver.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_walflow.client import Client
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.older_spark import DataSourceStreamArrowWriter
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Patience
from pyspark_walflow.reuse import settle
from pyspark_walflow.rows import lines_of
from pyspark_walflow.wire import Damaged, FrameKind, RequestRefused, Right, WireKey

PIECE: Final = 512 << 10  # bytes sent at a time
IN_MEMORY: Final = 8 << 20  # of a task's lines; what is beyond goes to a temporary file
ABORT_SECONDS: Final = 1.0
QUERY_ID: Final = "sql.streaming.queryId"  # StreamExecution.QUERY_ID_KEY: of the checkpoint, the same after restarts
ONCE: Final = "write-"  # begins the id of what is no streaming query

T = TypeVar("T")


class StagedRows(WriterCommitMessage):
    """`name` is empty where a task had no rows, and staged nothing."""

    def __init__(self, name: str, query: str, rows: int) -> None:
        self.name = name
        self.query = query
        self.rows = rows

    def __repr__(self) -> str:
        return f"Staged({self.name or 'nothing'}, {self.rows} rows)"


class _Writer:
    """A copy of it goes to every task: with a ticket for this log, made when it is first copied."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ticket: WireKey | None = None
        self._log = ""

    def __getstate__(self) -> dict[str, object]:
        if self._ticket is None:
            key = self._options.key()
            self._log = _try(self._options, key, None, lambda client: client.log)
            self._ticket = key.ticket(Right.STAGE, self._log)
        return self.__dict__

    def _stage(self, batches: Iterator[pa.RecordBatch], query: str) -> StagedRows:
        """Gathered first: rows cannot be asked for again, and a connection may break."""
        rows = 0
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as lines:
            for batch in batches:
                lines.write(lines_of(batch))
                rows += batch.num_rows
            if not rows:
                return StagedRows("", query, 0)
            name = secrets.token_hex(16)
            assert self._ticket is not None
            answer = _try(self._options, self._ticket, self._log, lambda client: client.stage(name, _pieces(lines)))
        settle()
        if answer.get("rows") != rows:
            raise WalflowError(f"{rows} rows were staged, and the daemon counts {answer.get('rows')}")
        return StagedRows(name, query, rows)

    def _publish(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        names = _names(messages)
        if not names:
            return
        (query,) = {message.query for message in messages if isinstance(message, StagedRows)}
        fields = {"query": query, "batch": batch, "names": names}
        _try(self._options, self._options.key(), None, lambda client: client.call(FrameKind.PUBLISH, fields))

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What it can name, of what a failed task leaves; the rest dies in the daemon, of age."""
        names = _names(messages)
        if not names:
            return
        try:
            fields = {"names": names}
            _try(
                self._options,
                self._options.key(),
                None,
                lambda client: client.call(FrameKind.ABORT, fields),
                ABORT_SECONDS,
            )
        except WalflowError as error:
            sys.stderr.write(f"walflow: {len(names)} stages are left to themselves: {error}\n")


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:  # type: ignore[override]  # its base says rows
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        if not query:
            raise WalflowError(f"Spark does not say which query this is ({QUERY_ID} is not set)")
        return self._stage(iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._publish(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Each is a query of its own, with one batch."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._query = ONCE + secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:  # type: ignore[override]  # its base says rows
        return self._stage(iterator, self._query)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


def _names(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [message.name for message in messages if isinstance(message, StagedRows) and message.name]


def _pieces(lines: IO[bytes]) -> Iterator[bytes]:
    lines.seek(0)
    while piece := lines.read(PIECE):
        yield piece


def _try(
    options: Options, key: WireKey, log: str | None, ask: Callable[[Client], T], seconds: float | None = None
) -> T:
    """Again on a new connection, for as long as the options say. Raises WalflowError."""
    patience = Patience(options.endpoint)
    while True:
        client: Client | None = None
        try:
            client = Client(options.endpoint, key, log)
            return ask(client)
        except (OSError, RequestRefused, Damaged) as error:
            patience.wait(error, options.retry_seconds if seconds is None else seconds)
        finally:
            if client is not None:
                client.close()
