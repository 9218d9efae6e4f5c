"""The prompt ack. Spark tells a source what is done when the next batch begins, so the last one of a quiet stream
stays in the log; the listener hears of it as soon as it is written to the checkpoint.

    pyspark_walflow.acks.attach(spark, host="…", port="…", tokenFile="…")

Nothing depends on it: what it cannot ack is acked with the next batch, or after the next start.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyspark_walflow.client import Client
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.planner import line_of
from pyspark_walflow.wire import Damaged, FrameKind, RequestRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_walflow.reader import OffsetPlace

SILENCE: Final = 5.0  # seconds after a failure in which nothing is tried


class PromptAcks(StreamingQueryListener):
    """Of all queries of a session that read one daemon. An offset says which log and which consumer it is of; those
    of other logs are left alone."""

    def __init__(self, options: Options) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._options = options
        self._key = options.key()
        self._client: Client | None = None
        self._quiet_until = 0.0

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for source in event.progress.sources:
            offset = _offset(source.endOffset)
            if offset is not None:
                self.ack(*offset)

    def ack(self, log: str, position: int, consumer: str, scan: str = "") -> None:
        """Does not raise: it is said, and the query goes on."""
        if time.monotonic() < self._quiet_until:
            return
        try:
            if self._client is None:
                self._client = Client(self._options.endpoint, self._key)
            if self._client.log == log:
                self._client.call(FrameKind.COMMIT, {"consumer": consumer, "position": position, "scan": scan})
        except (OSError, RequestRefused, Damaged) as error:
            self.close()
            self._quiet_until = time.monotonic() + SILENCE
            line = line_of(error, self._options.endpoint)
            sys.stderr.write(f"walflow: position {position} is not committed now, a later commit covers it: {line}\n")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


def attach(spark: "SparkSession", **options: str) -> PromptAcks:
    """To every query of the session. `options`: those of the stream; host, port, tokenFile, tls and cafile count.
    Raises WalflowError. `spark.streams.removeListener` takes it off again."""
    acks = PromptAcks(Options.of(options))
    spark.streams.addListener(acks)
    return acks


def _offset(text: object) -> "OffsetPlace | None":
    """The place that an offset of a source names. None: it is no source of walflow."""
    from pyspark_walflow.reader import place_of

    try:
        offset: object = json.loads(text) if isinstance(text, str) else text
        return place_of(cast(Mapping[str, object], offset)) if isinstance(offset, dict) else None
    except (ValueError, WalflowError):
        return None
