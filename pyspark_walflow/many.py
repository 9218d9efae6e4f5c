"""Option `hosts`: the logs of many daemons as one source.

An offset has one offset for each log, {"edge1:7700": {…}, "edge2:7700": {…}}, as `reader` has it; so a host is added
by naming it, and one that is no longer named keeps its place. A daemon that is away has nothing new. One that was
never reached has no place yet, and begins where it would have begun alone. Rows have a first column `log`, for a
position is one of its log.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import Range, fetch, tell
from pyspark_walflow.older_reader import OlderStreamReader
from pyspark_walflow.older_spark import BOUNDS, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Unreachable
from pyspark_walflow.reader import ASKS_AGAIN, BatchReader, Offset, StreamReader

LOG: Final = "log"  # the column

Offsets = dict[str, Offset]  # by host


class RangeOf(InputPartition):
    """Of the log of one host."""

    def __init__(self, host: str, part: Range) -> None:
        self.host = host
        self.part = part

    def __repr__(self) -> str:
        return f"RangeOf({self.host}, {self.part})"


class ManyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`options`: by host, as it is named. Limits of a batch are those of each log."""

    def __init__(self, options: Mapping[str, Options]) -> None:
        kind = StreamReader if BOUNDS else OlderStreamReader
        self._options = {host: one._replace(poll_ms=one.poll_ms // len(options)) for host, one in options.items()}
        self._readers = {host: kind(one) for host, one in self._options.items()}
        self._highest: Offsets = {}
        self._left_out: set[str] = set()  # of an availableNow: those that did not answer when it began
        self._asks_again: dict[str, float] = {}  # a host that was never reached

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options}

    def initialOffset(self) -> Offsets:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(next(iter(self._options.values())).max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        for host, reader in self._readers.items():
            try:
                reader.prepareForTriggerAvailableNow()
            except Unreachable as error:
                self._left_out.add(host)
                tell(f"nothing of {host} in this run: {error}")

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """An older Spark says neither: then it is behind the highest that was answered or planned."""
        limit = limit or self.getDefaultReadLimit()
        known = self._highest if start is None else _offsets(start)
        latest = dict(known)
        for host, reader in self._readers.items():
            if host not in self._left_out and time.monotonic() >= self._asks_again.get(host, 0):
                found = self._latest(host, reader, known.get(host), limit)
                if found is not None:
                    latest[host] = found
        self._highest = latest
        return latest

    def _latest(self, host: str, reader: StreamReader, start: Offset | None, limit: ReadLimit) -> Offset | None:
        """None: nothing is known of it."""
        begin = start
        try:
            with reader.hurrying():
                if isinstance(reader, OlderStreamReader):
                    found = reader.latestOffset()
                else:
                    begin = start if start is not None else reader.initialOffset()
                    found = reader.latestOffset(begin, limit)
        except Unreachable as error:
            if host not in self._asks_again:  # else it was told
                tell(f"nothing of {host}, its daemon is away: {error}")
            self._asks_again[host] = time.monotonic() + ASKS_AGAIN
            return start
        self._asks_again.pop(host, None)
        return found if isinstance(reader, OlderStreamReader) or found != begin else start

    def reportLatestOffset(self) -> Offsets:
        found: Offsets = {}
        for host in self._highest.keys() & self._readers.keys():
            try:
                found[host] = self._readers[host].reportLatestOffset()
            except Unreachable:
                found[host] = self._highest[host]
        return found

    def partitions(self, start: Offsets, end: Offsets) -> list[RangeOf]:
        first = _offsets(start)
        if not BOUNDS:
            self._highest = _offsets(end) | self._highest
        found: list[RangeOf] = []
        for host, last in _offsets(end).items():
            if (reader := self._readers.get(host)) is None:
                if first.get(host) != last:
                    raise WalflowError(f"a batch that was begun has events of {host}, which option hosts must name")
                continue
            begin = first[host] if host in first else reader.initialOffset()
            if begin != last or not BOUNDS:
                found += [RangeOf(host, part) for part in reader.partitions(begin, last)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeOf)
        options = self._options[partition.host]
        return _with_log(fetch(options, partition.part, options.consumer), partition.part.log)

    def commit(self, end: Offsets) -> None:
        """A lost ack is only a late one."""
        for host, last in _offsets(end).items():
            if (reader := self._readers.get(host)) is None:
                continue
            try:
                with reader.hurrying():
                    reader.commit(last)
            except Unreachable as error:
                tell(f"position {last['position']} of {host} is not committed now, the next run covers it: {error}")

    def stop(self) -> None:
        for reader in self._readers.values():
            reader.stop()


class ManyBatchReader(DataSourceReader):
    """What the logs hold now. A daemon that is away is an error: a count of some of them would look like all."""

    def __init__(self, options: Mapping[str, Options]) -> None:
        self._options = options

    def partitions(self) -> list[RangeOf]:
        return [RangeOf(host, part) for host, one in self._options.items() for part in BatchReader(one).partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeOf)
        return _with_log(fetch(self._options[partition.host], partition.part, ""), partition.part.log)


def _with_log(batches: Iterator[Any], log: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        column = pa.array([log] * batch.num_rows, pa.string())
        yield batch.add_column(0, LOG, column)


def _offsets(given: Mapping[str, object]) -> Offsets:
    """Raises WalflowError."""
    if any(not isinstance(one, dict) for one in given.values()):
        raise WalflowError(
            f"the checkpoint holds {given!r}, which is of one log: option hosts needs a new checkpoint"
        )
    return dict(cast(Offsets, given))
