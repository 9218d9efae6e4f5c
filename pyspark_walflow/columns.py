"""Records of the log, as they lie there, to Arrow columns: Python looks at each record, never at each event.

    position long, ingest_ts timestamp, key string, value string       (value binary, where asked for)
    … ingest_ns long, meta string                                      (where asked for)

A record has a checksum in its header for the header and one for the rest, both CRC-32C continued from a seed. They
are checked where google_crc32c can be imported. Elsewhere they are not: then the daemon has checked the records when
it took them from the disk, and the frame's checksum what came over the wire.
"""

import struct
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_walflow import wire
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.tags import LENGTHS, Shape, TagDecoder
from walflow_kernel.log_records import RECORD_START as HEADER, record_offsets

Crc = Callable[[int, bytes], int]
Int64 = npt.NDArray[np.int64]
if TYPE_CHECKING:
    Array = pa.Array[pa.Scalar[Any]]

SUMMED: Final = HEADER - 4  # bytes of the header that its own checksum covers
_SIZE: Final = struct.Struct(">I")
_HEADER: Final = np.dtype(
    {
        "names": ["sync", "length", "position", "ingest_ns", "count", "tag_size", "body_crc", "crc"],
        "formats": ["S4", "<u4", "<u8", "<i8", "<u4", "<u2", "<u4", "<u4"],
        "offsets": [0, 4, 8, 16, 32, 38, 40, 44],
        "itemsize": HEADER,
    }
)


def find_crc() -> Crc | None:
    try:
        import google_crc32c  # an executor may lack it
    except ImportError:
        return None
    return cast(Crc, google_crc32c.extend)  # pyright: ignore[reportUnknownMemberType]


class ColumnRun(NamedTuple):
    """Records one behind the other whose events are told apart in the same way; all arrays are of one length."""

    data: bytes | memoryview
    starts: Int64  # of the payloads
    ends: Int64
    firsts: Int64  # positions
    counts: Int64
    ingest_ns: Int64
    shapes: list[Shape]


class Columns:
    """Remembers tags, nothing else."""

    def __init__(
        self, *, binary: bool, crc: Crc | None, metadata: bool = False, needed: Collection[str] | None = None
    ) -> None:
        """`needed`: the columns that are shown, None: all. The position is made in any case, to see that all come."""
        fields: list[pa.Field[Any]] = [
            pa.field("position", pa.int64()),
            pa.field("ingest_ts", pa.timestamp("us", "UTC")),
            pa.field("key", pa.string()),
            pa.field("value", pa.binary() if binary else pa.string()),
        ]
        if metadata:
            fields += [pa.field("ingest_ns", pa.int64()), pa.field("meta", pa.string())]
        self.schema = pa.schema([one for one in fields if needed is None or one.name in needed])
        self._made = pa.schema([one for one in fields if one.name in ("position", *self.schema.names)])
        self._binary = binary
        self._crc = crc
        self._tags = TagDecoder(metadata=metadata)

    def shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One of `batches`, without what is not needed."""
        return batch if "position" in self.schema.names else batch.select(self.schema.names)

    def batches(self, seed: int, data: bytes | memoryview, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Of whole records, one behind the other, the events from position `first` to `end`, the latter excluded.
        What comes has no part of `data`.
        Raises wire.Damaged for what no log holds, WalflowError for events that are not what the options say."""
        offsets = _offsets(data)
        headers = _headers(data, offsets)
        if self._crc is not None:
            _check(self._crc, seed, data, offsets, headers)
        starts = offsets + HEADER + headers["tag_size"]
        ends = offsets + HEADER + headers["length"]
        firsts = headers["position"].astype(np.int64)
        counts = headers["count"].astype(np.int64)
        ingest_ns = headers["ingest_ns"].astype(np.int64)
        if (firsts[1:] != firsts[:-1] + counts[:-1]).any():
            raise wire.Damaged("records came whose positions do not follow one another")
        shapes = self._shapes(data, offsets + HEADER, starts, firsts)
        for low, high in _runs(shapes):
            run = slice(low, high)
            batch = self._batch(
                ColumnRun(data, starts[run], ends[run], firsts[run], counts[run], ingest_ns[run], shapes[run]),
                first,
                end,
            )
            if batch.num_rows:
                yield batch

    def _shapes(self, data: bytes | memoryview, tags: Int64, payloads: Int64, firsts: Int64) -> list[Shape]:
        shape = self._tags.shape
        shapes: list[Shape] = []
        try:
            for start, end in zip(tags.tolist(), payloads.tolist(), strict=True):
                shapes.append(shape(bytes(data[start:end])))
        except ValueError as error:
            raise WalflowError(f"the record at position {firsts[len(shapes)]} cannot be read: {error}") from None
        return shapes

    def _batch(self, run: ColumnRun, first: int, end: int) -> pa.RecordBatch:
        begins, ends = _told_apart(run)
        count, begin = len(begins), int(run.firsts[0])
        arrays: list[Array] = []
        values: pa.Buffer | None = None
        for name in self._made.names:
            match name:
                case "position":
                    arrays.append(_column(pa.int64(), count, np.arange(begin, begin + count).data))
                case "ingest_ts":
                    times = np.repeat(run.ingest_ns // 1000, run.counts)
                    arrays.append(_column(pa.timestamp("us", "UTC"), count, times.data))
                case "key":
                    arrays.append(_keys(run, count))
                case "value":
                    offsets, values = _gathered(run.data, begins, ends)
                    arrays.append(_column(pa.binary() if self._binary else pa.string(), count, offsets, values))
                case "ingest_ns":
                    arrays.append(_column(pa.int64(), count, np.repeat(run.ingest_ns, run.counts).data))
                case _:
                    arrays.append(_metas(run, count))
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._made)  # pyright: ignore[reportUnknownMemberType]
        low = max(first - begin, 0)
        batch = whole.slice(low, max(min(end - begin, count) - low, 0))
        if values is not None and not self._binary and not _is_ascii(values):
            _check_text(batch)
        return batch


def first_of(batch: pa.RecordBatch) -> int:
    """The position of its first row."""
    return cast(int, batch.column(0)[0].as_py())  # pyright: ignore[reportUnknownMemberType]


def _column(kind: pa.DataType, count: int, *buffers: memoryview | bytes | pa.Buffer) -> "Array":
    """An Arrow array without nulls."""
    return pa.Array.from_buffers(kind, count, [None, *(pa.py_buffer(one) for one in buffers)])


def _gathered(data: bytes | memoryview, begins: Int64, ends: Int64) -> tuple[pa.Buffer, pa.Buffer]:
    """The events as a column has them, offsets and bytes: copied once, without what lies between them."""
    low, high = int(begins[0]), int(ends[-1])
    edges = np.empty(2 * len(begins), np.int32)
    edges[::2], edges[1::2] = begins - low, ends - low
    pieces = _column(pa.binary(), len(edges) - 1, edges.data, memoryview(data)[low:high])
    _, offsets, values = pieces.take(np.arange(0, len(edges), 2)).buffers()
    assert offsets is not None
    assert values is not None
    return offsets, values


def _is_ascii(values: pa.Buffer) -> bool:
    return not values.size or int(np.frombuffer(memoryview(values), np.int8).min()) >= 0


def _offsets(data: bytes | memoryview) -> Int64:
    """The offsets at which records begin."""
    offsets, end = record_offsets(data)
    if end != len(data):
        raise wire.Damaged("what came is no whole records")
    return np.array(offsets, np.int64)


def _headers(data: bytes | memoryview, offsets: Int64) -> npt.NDArray[np.void]:
    bytes_of = np.frombuffer(data, np.uint8)[offsets[:, None] + np.arange(HEADER)]
    headers: npt.NDArray[np.void] = bytes_of.view(_HEADER).reshape(len(offsets))
    if (headers["tag_size"] > headers["length"]).any() or not headers["count"].all():
        raise wire.Damaged("what came has a header of no record")
    return headers


def _check(crc: Crc, seed: int, data: bytes | memoryview, offsets: Int64, headers: npt.NDArray[np.void]) -> None:
    bodies = offsets + HEADER
    found = [crc(seed, bytes(data[at : at + SUMMED])) for at in offsets.tolist()]
    wrong = headers["crc"] != np.array(found, np.uint32)
    ends = bodies + headers["length"]
    found = [crc(seed, bytes(data[start:end])) for start, end in zip(bodies.tolist(), ends.tolist(), strict=True)]
    wrong |= headers["body_crc"] != np.array(found, np.uint32)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise wire.Damaged(
            f"the record at position {headers['position'][at]} arrived with another checksum than it has"
        )


def _runs(shapes: list[Shape]) -> Iterator[tuple[int, int]]:
    """Records that have the same separator."""
    low = 0
    for high in range(1, len(shapes)):
        if shapes[high].separator != shapes[low].separator:
            yield low, high
            low = high
    if shapes:
        yield low, len(shapes)


def _told_apart(run: ColumnRun) -> tuple[Int64, Int64]:
    """Where each event begins and ends, without what separates them."""
    separator = run.shapes[0].separator
    if separator is None:
        return _whole(run)
    return _counted(run) if separator == LENGTHS else _separated(run, separator)


def _counted(run: ColumnRun) -> tuple[Int64, Int64]:
    """Events behind their length: four bytes, the highest first."""
    begins: list[int] = []
    ends: list[int] = []
    for at, end, count in zip(run.starts.tolist(), run.ends.tolist(), run.counts.tolist(), strict=True):
        before = len(ends)
        while at + _SIZE.size <= end:
            (size,) = _SIZE.unpack_from(run.data, at)
            at += _SIZE.size + size
            begins.append(at - size)
            ends.append(at)
        if at != end or len(ends) - before != count:
            raise _miscounted(run)
    return np.array(begins, np.int64), np.array(ends, np.int64)


def _separated(run: ColumnRun, separator: int) -> tuple[Int64, Int64]:
    low = int(run.starts[0])
    ends = np.flatnonzero(np.frombuffer(run.data, np.uint8)[low : int(run.ends[-1])] == separator) + low
    behind = np.searchsorted(ends, run.ends)  # of each record's last event
    before = np.searchsorted(ends, run.starts)  # between two records, a header or a tag may have such a byte
    if (behind - before != run.counts).any() or (ends[behind - 1] != run.ends - 1).any():
        raise _miscounted(run)
    first = np.cumsum(run.counts) - run.counts  # of each record, among all events
    count = int(run.counts.sum())
    if len(ends) != count:
        ends = ends[np.arange(count) + np.repeat(before - first, run.counts)]
    begins = np.empty(count, np.int64)
    begins[1:] = ends[:-1] + 1
    begins[first] = run.starts
    return begins, ends


def _whole(run: ColumnRun) -> tuple[Int64, Int64]:
    if (run.counts != 1).any():
        raise wire.Damaged(f"a record from position {run.firsts[0]} on has several events and nothing between them")
    return run.starts, run.ends


def _miscounted(run: ColumnRun) -> wire.Damaged:
    return wire.Damaged(f"the events from position {run.firsts[0]} on are not as many as their records say")


def _keys(run: ColumnRun, count: int) -> "Array":
    return _texts(run, count, [(shape.key, shape.keys) for shape in run.shapes])


def _metas(run: ColumnRun, count: int) -> "Array":
    return _texts(run, count, [(shape.meta, shape.metas) for shape in run.shapes])


def _texts(run: ColumnRun, count: int, found: list[tuple[str | None, tuple[str | None, ...] | None]]) -> "Array":
    """Of each record: one for all its events, or one for each."""
    if all(one is None and each is None for one, each in found):
        return pa.nulls(count, pa.string())
    texts: list[str | None] = []
    times: list[int] = []
    for (one, each), events in zip(found, run.counts.tolist(), strict=True):
        own = each if each is not None and len(each) == events else None
        texts += own or (one,)
        times += [1] * events if own else [events]
    return pa.array(texts, pa.string()).take(np.repeat(np.arange(len(texts)), times))


def _check_text(batch: pa.RecordBatch) -> None:
    try:
        batch.column("value").validate(full=True)
    except pa.ArrowInvalid:
        events = cast(list[bytes], batch.column("value").cast(pa.binary()).to_pylist())  # pyright: ignore[reportUnknownMemberType]
        for position, event in enumerate(events, first_of(batch)):
            try:
                event.decode()
            except UnicodeDecodeError as error:
                raise WalflowError(
                    f"the event at position {position} is not UTF-8, from its byte {error.start} on: "
                    'read such a log with option("value", "binary")'
                ) from None
        raise
