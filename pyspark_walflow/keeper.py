"""The rows of one bucket through a pipeline with state, in their order, with the time that passes between them.

What runs is what the daemon runs, with a state of the bucket's own. Time is what the rows say: before each event the
windows close that are due by then, each at its tick (`walflow_kernel.windows.ticks`), and behind the last event of a
batch those that are due by the end of the batch. So what leaves does not depend on how a stream is cut into batches.

    bucket, order, value, position, ingest_ns, meta, port          in, sorted by bucket and order; see `dealer.DEALT`
    port, position, nth, ingest_ns, meta, value, error             out; see `stage.SCHEMA`

What time has caused has the position of the event before it in its bucket, behind all that this event has made.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pyspark_walflow.bucket import BEFORE, BucketResults, BucketState, RefusedAt, Told
from pyspark_walflow.dealer import TICK, from_bytes, to_bytes
from pyspark_walflow.region import BlockRunner, Column, EventsRead, Refused, RefusedRow, RowBlock, unwritable
from pyspark_walflow.reuse import settle
from pyspark_walflow.stage import (
    ERR,
    ERROR_META,
    columns_of,
    enveloped_rows,
    error_text,
    runners,
    strings,
    unpacked,
)
from walflow_kernel import json
from walflow_kernel.shipped import ShippedPipeline
from walflow_kernel.state import Room
from walflow_kernel.windows.ticks import earliest

_arrow: Any = pa
_compute: Any = pyarrow.compute

BLOCK_ROWS: Final = 8192
LENT_BYTES: Final = 4 << 20  # of the state, in results that have not left
STATE: Final = "state binary"
RESULTS: Final = "packed binary"
REFUSED: Final = ""  # stands for error events in what is counted by ports; no port has this name


def keep_sorted(packed: bytes, flush: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` is given, of data that has an end. `flush`: open windows are closed at the end."""
    keeper = _keeper(packed)
    bucket, state = -1, None
    for batch in batches:
        numbers = np.asarray(columns_of(batch)["bucket"])
        begins = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(begins):
            if begin == end:
                continue
            if state is None or numbers[begin] != bucket:
                if state is not None and flush:
                    yield from keeper.flush(state)
                bucket, state = int(numbers[begin]), BucketState.new(keeper.keeping)
            yield from keeper.run(state, batch.slice(begin, end - begin))
    if state is not None and flush:
        yield from keeper.flush(state)
    settle()


def keep_packed(packed: bytes, key: tuple[Any, ...], frames: Iterable[Any], group: Any) -> Iterator[Any]:
    """What `applyInPandasWithState` is given, of a stream: the rows of one bucket in one batch."""
    pandas: Any = import_module("pandas")  # it has no types
    keeper = _keeper(packed)
    stored = bytes(group.get[0]) if group.exists else None
    step = BucketStep(keeper, stored)
    for made in step.run(blob for frame in frames for blob in frame["packed"]):
        yield pandas.DataFrame({"packed": [to_bytes(made)]})
    group.update((step.packed,))
    settle()


def unpack_results(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in columns_of(batch)["packed"]:
            yield from from_bytes(blob.as_buffer())


def unpack_enveloped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for the daemon."""
    return enveloped_rows(unpack_results(batches))


class BucketStep:
    """One bucket in one batch of a stream. `packed`: its state afterwards, once all of `run` has been taken."""

    def __init__(self, keeper: "Keeper", stored: bytes | None) -> None:
        self._keeper = keeper
        keeping = keeper.keeping
        self._state = BucketState.new(keeping) if stored is None else BucketState.of(stored, keeping, keeper.source)

    def run(self, blobs: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        batches = [batch for blob in blobs for batch in from_bytes(blob)]
        table: Any = _arrow.Table.from_batches(batches).sort_by("order").combine_chunks()
        for batch in table.to_batches(max_chunksize=BLOCK_ROWS):
            yield from self._keeper.run(self._state, batch)

    @property
    def packed(self) -> bytes:
        return self._state.packed(self._keeper.keeping)


_keepers: dict[bytes, "Keeper"] = {}


def _keeper(packed: bytes) -> "Keeper":
    """A worker runs many tasks of one query."""
    if packed not in _keepers:
        if len(_keepers) >= 16:
            _keepers.clear()
        _keepers[packed] = Keeper(unpacked(packed))
    return _keepers[packed]


class Keeper:
    """Keeps the state of one pipeline."""

    def __init__(self, pipeline: ShippedPipeline) -> None:
        assert pipeline.keeping is not None
        self.keeping = pipeline.keeping
        self.source = pipeline.source
        self._regions = runners(pipeline)
        self._ticking = {
            region.shipped.ticking: region for region in self._regions.values() if region.shipped.ticking
        }

    def run(self, state: BucketState, batch: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one bucket, the ticks behind the events."""
        columns = columns_of(batch)
        ticks = batch.filter(_compute.equal(columns["order"], TICK))
        events = batch.slice(0, batch.num_rows - ticks.num_rows)
        ports: Sequence[str] = events.column("port").to_pylist() if len(self._regions) > 1 else ()
        begin = 0
        for end in range(1, events.num_rows + 1):
            if end == events.num_rows or (ports and ports[end] != ports[begin]):
                region = self._regions[ports[begin]] if ports else next(iter(self._regions.values()))
                yield from self._events(state, region, columns_of(events.slice(begin, end - begin)))
                begin = end
        if ticks.num_rows:
            now: int = _compute.max(columns_of(ticks)["ingest_ns"]).as_py()
            state.time = max(state.time, now)
            results = BucketResults(None, ())
            self._tick(state, state.time, results, BEFORE)
            told = Told(state, results, None, 0)
            yield from self._left(results, told)
            told.end()

    def flush(self, state: BucketState) -> Iterator[pa.RecordBatch]:
        results = BucketResults(None, ())
        for region in self._regions.values():
            self._without_event(state, region, state.time, results, BEFORE, flush=True)
        told = Told(state, results, None, 0)
        yield from self._left(results, told)
        told.end()

    def _events(
        self, state: BucketState, region: BlockRunner, columns: dict[str, Column]
    ) -> Iterator[pa.RecordBatch]:
        times = np.maximum.accumulate(np.maximum(np.asarray(columns["ingest_ns"]), state.time))
        rows = RowBlock(columns["value"], columns["order"].to_pylist(), times.tolist(), columns["meta"].to_pylist())
        results = BucketResults(rows, rows.metas)
        told = Told(state, results, columns, len(times))
        read = region.read(rows)
        results.refused += [RefusedAt(one.number, None, one) for one in rows.refused]
        done = BEFORE
        timed = region.asks or bool(self._ticking)
        for time, some in region.at_times(rows, read, timed=timed):
            self._tick(state, time, results, done)
            done = some.numbers[-1] if len(some.numbers) else done
            left: EventsRead | None = some
            while left is not None:
                left = self._block(state, region, left, time, results)
                if left is not None:  # much of the state has left
                    yield from self._left(results, told)
        yield from self._left(results, told)
        state.time = int(times[-1])
        told.end()

    def _block(
        self, state: BucketState, region: BlockRunner, read: EventsRead, time: int, results: BucketResults
    ) -> EventsRead | None:
        """What is left of it."""
        assert results.rows is not None
        room: Room = [LENT_BYTES, None]
        try:
            exits, refused = region.call(results.rows, read, time, state.cells, room, flush=False)
        except Exception as error:  # noqa: BLE001 - a mistake of walflow's is an error of its events; what they changed stays
            reason = f"internal error: {type(error).__name__}: {error}"
            results.refused += [RefusedAt(number, None, RefusedRow(number, reason)) for number in read.numbers]
            return None
        self._take(region, exits, refused, results, None, BEFORE)
        end: int | None = room[1]
        if end is None:
            return None
        at = list(read.numbers).index(end)
        events = read.events[at:] if isinstance(read.events, list) else read.events
        return EventsRead(read.numbers[at:], events, read.metas)

    def _tick(self, state: BucketState, now: int, results: BucketResults, anchor: int) -> None:
        """Each tick by itself, so that its results have its time."""
        for places, region in self._ticking.items():
            while (
                due := earliest([one for place in places for one in state.cells[place][0]["waiting"]])
            ) is not None:
                if due > now:
                    break
                self._without_event(state, region, due, results, anchor, flush=False)

    def _without_event(
        self, state: BucketState, region: BlockRunner, time: int, results: BucketResults, anchor: int, *, flush: bool
    ) -> None:
        rows = RowBlock((), (), (), ())
        try:
            exits, refused = region.call(rows, EventsRead((), (), None), time, state.cells, None, flush=flush)
        except Exception as error:  # noqa: BLE001 - as above; what was due is not due any more
            row = RefusedRow(BEFORE, f"internal error: {type(error).__name__}: {error}")
            results.refused.append(RefusedAt(anchor, time, row))
            return
        self._take(region, exits, refused, results, time, anchor)

    def _take(
        self,
        region: BlockRunner,
        exits: Sequence[Any],
        refused: Sequence[Refused],
        results: BucketResults,
        time: int | None,
        anchor: int,
    ) -> None:
        """`time`, `anchor`: of what time has caused."""

        def told_with(number: int) -> int:
            return number if time is None else anchor

        shipped = region.shipped
        for number, reason, line in refused:
            row = RefusedRow(number, reason, shipped.place(line))
            results.refused.append(RefusedAt(told_with(number), time, row))
        found: Any  # of each exit, as the generated code gives it
        for exit, found in zip(shipped.exits, exits, strict=True):
            numbers: Sequence[int] = found[0]
            values: Sequence[Any] | None = found[1]
            metas: Sequence[Any] | None = found[2]
            if not len(numbers):
                continue
            if values is None:
                assert results.rows is not None
                values = [results.rows.kept(number) for number in numbers]
            reasons, texts = unwritable(values, metas, len(numbers))
            port = results.port(exit)
            for at, (number, value, why) in enumerate(zip(numbers, values, reasons, strict=True)):
                if why is not None:
                    row = RefusedRow(number, f"not JSON: {why}")
                    results.refused.append(RefusedAt(told_with(number), time, row))
                    continue
                port.anchors.append(told_with(number))
                port.times.append(time)
                port.values.append(value)
                port.metas.append(results.metas[number] if texts is None else texts[at])

    # ---- rows of Spark's

    def _left(self, results: BucketResults, told: "Told") -> Iterator[pa.RecordBatch]:
        """What has left by now."""
        for exit, port in results.ports.items():
            value = strings(json.lines(port.values), len(port.values))
            none: Column = _arrow.nulls(len(port.values), pa.string())
            yield told.rows(exit, exit, port.anchors, port.times, port.metas, value, none)
        if results.refused:
            refused = sorted(results.refused, key=lambda one: one.anchor)
            texts = [
                error_text(self.source, one.row, results.rows if one.row.number >= 0 else None) for one in refused
            ]
            reasons: Column = pa.array([one.row.reason for one in refused], pa.string())
            anchors, times = [one.anchor for one in refused], [one.time for one in refused]
            values: Column = pa.array(texts, pa.string())
            yield told.rows(ERR, REFUSED, anchors, times, [ERROR_META] * len(refused), values, reasons)
        results.ports.clear()
        results.refused.clear()
