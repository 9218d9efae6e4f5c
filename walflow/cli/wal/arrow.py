"""`walflow wal export --arrow`: the events of a log as an Arrow stream. Needs the extra `arrow`."""

from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from walflow.cli.wal.events import compact, events_of
from walflow.delivery.tag import Tags

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from walflow.cli.wal.events import Event
    from walflow.wal import Record

ROWS: Final = 16_384  # of a batch, at most, or a record's
BYTES: Final = 8 << 20  # of their values, about


def write_arrow(records: "Iterable[Record]", first: int, last: int, out: "BinaryIO") -> int:
    """Events `first` to `last` as a stream of record batches with `position`, `time`, `source` and `value`, which is
    JSON. Each batch is bounded. Returns how many events have no value, because they cannot be decoded: it is null."""
    columns: dict[str, pa.DataType] = {
        "position": pa.int64(),
        "time": pa.timestamp("ns", "UTC"),
        "source": pa.string(),
        "value": pa.string(),
    }
    schema = pa.schema(columns)
    tags, batch, lacking = Tags(), _Rows(), 0
    with pa.ipc.new_stream(cast(Any, out), schema) as writer:
        for record in records:
            for event in events_of(tags, record, first, last):
                lacking += batch.add(event)
            if batch.count >= ROWS or batch.size >= BYTES:
                writer.write_batch(batch.made(schema))  # pyright: ignore[reportUnknownMemberType]
                batch = _Rows()
        if batch.count:
            writer.write_batch(batch.made(schema))  # pyright: ignore[reportUnknownMemberType]
    return lacking


class _Rows:
    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times: list[int] = []
        self._sources: list[str | None] = []
        self._values: list[str | None] = []
        self.size = 0

    @property
    def count(self) -> int:
        return len(self._positions)

    def add(self, event: "Event") -> int:
        """How many events of it have no value: a record that cannot be taken apart is a row for each."""
        value = None if event.error else compact(event.value)
        self._positions += range(event.position, event.position + event.count)
        self._times += [event.ingest_ns] * event.count
        self._sources += [event.tag.stream.connector if event.tag else None] * event.count
        self._values += [value] * event.count
        self.size += len(value or "")
        return event.count if event.error else 0

    def made(self, schema: pa.Schema) -> pa.RecordBatch:
        columns: list[pa.Array[Any]] = [
            pa.array(self._positions, pa.int64()),
            pa.array(self._times, pa.timestamp("ns", "UTC")),
            pa.array(self._sources, pa.string()),
            pa.array(self._values, pa.string()),
        ]
        batch: pa.RecordBatch = pa.RecordBatch.from_arrays(columns, schema=schema)  # pyright: ignore[reportUnknownMemberType]
        return batch
