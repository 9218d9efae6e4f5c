"""Rows of a pipeline with state, dealt to buckets: by the group of each event, on the executors that have read it.

    value, position, ingest_ns, meta, port                         in; see `stage.INPUT`
    bucket, order, value, position, ingest_ns, meta, port          out; `DEALT`

What comes last to each bucket is a tick: what time it was when the batch ended. So a window closes in a bucket to
which no event came. In a stream, all that goes from one batch of Arrow to one bucket is one row with one column of
bytes: Spark hands state to Python by pandas, which makes an object of each cell.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pyspark_walflow.inputs import with_ports
from pyspark_walflow.region import BlockRunner, Column, RowBlock
from pyspark_walflow.reuse import settle
from pyspark_walflow.stage import columns_of, unpacked
from walflow_kernel.errors import CannotApply
from walflow_kernel.shipped import Keeping, ShippedPipeline, revive
from walflow_kernel.windows.groups import text_of

_arrow: Any = pa
_compute: Any = pyarrow.compute

TICK: Final = (1 << 63) - 1  # the order of a row that is no event
MOST_KNOWN: Final = 1 << 16  # groups whose buckets a task remembers
DROPPED: Final = -1
FIELDS: Final = (
    ("order", pa.int64()),
    ("value", pa.binary()),
    ("position", pa.int64()),
    ("ingest_ns", pa.int64()),
    ("meta", pa.string()),
    ("port", pa.string()),
)
DEALT: Final = "bucket int, order long, value binary, position long, ingest_ns long, meta string, port string"
PACKED: Final = "bucket int, packed binary"
_ROWS: Final = _arrow.schema([pa.field(name, kind) for name, kind in FIELDS])

Group = Sequence[object]


def deal_rows(packed: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` is given, of data that has an end."""
    for bucket, rows in _dealt(packed, batches, ticks=False):
        column = pa.array(np.full(rows.num_rows, bucket, np.int32))
        yield _arrow.RecordBatch.from_arrays([column, *rows.columns], names=["bucket", *rows.schema.names])


def deal_packed(packed: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` is given, of a stream. A row without a value says what time it is, and is no event."""
    for bucket, rows in _dealt(packed, batches, ticks=True):
        yield packed_row(bucket, rows)


def packed_row(bucket: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.array([bucket], pa.int32()), pa.array([to_bytes(rows)], pa.binary())]
    made: pa.RecordBatch = _arrow.RecordBatch.from_arrays(columns, names=["bucket", "packed"])
    return made


def to_bytes(rows: pa.RecordBatch) -> bytes:
    written = _arrow.BufferOutputStream()
    with _arrow.ipc.new_stream(written, rows.schema) as stream:
        stream.write_batch(rows)
    found: bytes = written.getvalue().to_pybytes()
    return found


def from_bytes(data: bytes) -> Iterator[Any]:
    with _arrow.ipc.open_stream(data) as stream:
        yield from stream


def _dealt(packed: bytes, batches: Iterable[pa.RecordBatch], *, ticks: bool) -> Iterator[tuple[int, Any]]:
    yield from deal(unpacked(packed), batches, _task(), ticks=ticks)
    settle()


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def deal(
    pipeline: ShippedPipeline, batches: Iterable[pa.RecordBatch], task: int, *, ticks: bool
) -> Iterator[tuple[int, Any]]:
    """The rows of each bucket. Rows without a position are in the order of the tasks, and of the rows of one."""
    assert pipeline.keeping is not None
    dealer = Dealer(pipeline.keeping, pipeline.salt)
    first = task << 40
    latest = 0
    several = len(pipeline.regions) > 1
    for batch in batches:
        given = with_ports(batch) if several and "port" not in batch.schema.names else batch
        rows = _rows(given, first, next(iter(pipeline.regions)))
        first += rows.num_rows
        if rows.num_rows:
            latest = max(latest, _compute.max(rows.column("ingest_ns")).as_py() or 0)
            if ticks:
                rows = rows.filter(_compute.is_valid(rows.column("value")))
            yield from dealer.deal(rows)
    if latest and any(region.ticking for region in pipeline.regions.values()):
        tick: Any = _arrow.RecordBatch.from_pylist([{"order": TICK, "ingest_ns": latest}], schema=_ROWS)
        for bucket in range(dealer.buckets):
            yield bucket, tick


def _rows(batch: Any, first: int, port: str) -> Any:
    columns = columns_of(batch)
    count = batch.num_rows
    here: Column = pa.array(range(first, first + count), pa.int64())
    position: Column = columns.get("position")
    arrays: list[Column] = [
        here if position is None else _compute.coalesce(position, here),
        columns["value"].cast(pa.binary()),
        _arrow.nulls(count, pa.int64()) if position is None else position,
        _compute.fill_null(columns["ingest_ns"], 0),
        columns.get("meta", _arrow.nulls(count, pa.string())),
        columns.get("port", _arrow.repeat(port, count)),
    ]
    return _arrow.RecordBatch.from_arrays(arrays, names=[name for name, _ in FIELDS])


class Dealer:
    def __init__(self, keeping: Keeping, salt: int) -> None:
        self.buckets = keeping.buckets
        self._dropping = keeping.dropping
        self._regions = {port: BlockRunner(revive(one), salt) for port, one in keeping.dealers.items()}
        self._known: dict[object, int] = {}

    def deal(self, rows: Any) -> Iterator[tuple[int, Any]]:
        count = rows.num_rows
        if not count:
            return
        if not self._regions:
            yield 0, rows
            return
        ports: Column = rows.column("port")
        buckets = np.zeros(count, np.int32)
        for port, region in self._regions.items():
            at = np.flatnonzero(np.asarray(_compute.equal(ports, port)))
            if len(at):
                buckets[at] = self._of(region, rows.take(pa.array(at)) if len(at) < count else rows)
        order = np.argsort(buckets, kind="stable")
        numbers, begins = np.unique(buckets[order], return_index=True)
        for number, some in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            if number != DROPPED:
                yield number, rows.take(pa.array(some))

    def _of(self, region: BlockRunner, rows: Any) -> Any:
        """The bucket of each. What has no group, because something is wrong with it, is told in the first bucket."""
        columns: Mapping[str, Column] = columns_of(rows)
        block = RowBlock(
            columns["value"],
            (),
            columns["ingest_ns"].to_pylist() if region.asks else (),
            columns["meta"].to_pylist() if region.reads_meta else (),
        )
        found = np.full(rows.num_rows, DROPPED if self._dropping else 0, np.int32)
        try:
            groups, refused = self._groups(region, block)
        except Exception:  # noqa: BLE001 - a mistake of walflow's is told where the pipeline runs
            return np.zeros(rows.num_rows, np.int32)
        for number, group in groups:
            found[number] = self._bucket(group)
        found[[*refused, *(one.number for one in block.refused)]] = 0
        return found

    def _groups(self, region: BlockRunner, block: RowBlock) -> tuple[Iterable[tuple[int, Group]], Iterable[int]]:
        groups: list[tuple[int, Group]] = []
        refused: list[int] = []
        for time, read in region.at_times(block, region.read(block), timed=region.asks):
            exits, some = region.call(block, read, time, None, None, flush=False)
            refused += [number for number, _, _ in some]
            for numbers, values, _ in exits:
                groups += zip(numbers, values, strict=True)
        return groups, refused

    def _bucket(self, group: Group) -> int:
        alone = group[0]
        if len(group) == 1 and type(alone) is str:
            key: object = alone
        elif all(type(value) is str for value in group):
            key = tuple(group)
        else:
            return self._by_text(group)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._by_text(group)
        return found

    def _by_text(self, group: Group) -> int:
        try:
            return crc32(text_of(group).encode()) % self.buckets
        except CannotApply:
            return 0
