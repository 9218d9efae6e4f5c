"""A compiled pipeline over Arrow batches: rows in, rows out, on an executor. It needs the kernel and pyarrow.

    value string or binary, position long, ingest_ns long, meta string, port string         in; see `INPUT`
    port, position, nth, ingest_ns, meta, value, error                                      out; see `SCHEMA`

A batch is one block: its events are judged, decoded and run together, as the daemon does. What fails is a row of the
port `err`; no event ends the query.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.inputs import with_ports
from pyspark_walflow.region import BlockRunner, Column, LeavingRows, RefusedRow, RowBlock
from pyspark_walflow.reuse import settle
from walflow_kernel import json
from walflow_kernel.shipped import ShippedPipeline, missing, revive

_arrow: Any = pa
_compute: Any = pyarrow.compute

INPUT: Final = ("value", "position", "ingest_ns", "meta", "port")
SCHEMA: Final = "port string, position long, nth int, ingest_ns long, meta string, value string, error string"
COLUMNS: Final = ("port", "position", "nth", "ingest_ns", "meta", "value", "error")
ERR: Final = "err"
ERROR_META: Final = '{"rejected":true}'

ROWS: Final = pa.schema(
    (
        pa.field("port", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("nth", pa.int32()),
        pa.field("ingest_ns", pa.int64()),
        pa.field("meta", pa.string()),
        pa.field("value", pa.string()),
        pa.field("error", pa.string()),
    )
)


def run_stage(packed: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` is given, behind the pipeline."""
    stage = _stage(packed)
    first = 0
    for batch in batches:
        yield from stage.run(batch, first)
        first += batch.num_rows
    settle()


def run_enveloped(packed: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for the daemon, which gets one column of text: `walflow.operators.from_spark.Envelope`."""
    return enveloped_rows(run_stage(packed, batches))


def enveloped_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch is of one port."""
    for made in batches:
        columns = columns_of(made)
        rejected = columns["error"].null_count < made.num_rows
        texts: Column = _compute.binary_join_element_wise(
            '{"port":',
            json.text(str(columns["port"][0])),
            ',"ingest_ns":',
            columns["ingest_ns"].cast(pa.string()),
            f',"rejected":{"true" if rejected else "false"},"meta":',
            _compute.coalesce(columns["meta"], "null"),
            ',"value":',
            columns["value"],
            "}",
            "",
        )
        out: pa.RecordBatch = _arrow.RecordBatch.from_arrays([texts], names=["value"])
        yield out


@lru_cache(16)
def _stage(packed: bytes) -> "Stage":
    return Stage(unpacked(packed))


@lru_cache(16)
def unpacked(packed: bytes) -> ShippedPipeline:
    """A worker runs many tasks of one query. Raises WalflowError for what this executor lacks."""
    pipeline: ShippedPipeline = pickle.loads(packed)
    lacking = missing(pipeline.needs)
    if lacking:
        raise WalflowError(
            f"pipeline {pipeline.source} needs {', '.join(lacking)} on each executor: put it into the Python of the "
            "executors, or ship an environment with --archives"
        )
    return pipeline


def runners(pipeline: ShippedPipeline) -> dict[str, BlockRunner]:
    """By the ports that events come to."""
    return {port: BlockRunner(revive(region), pipeline.salt) for port, region in pipeline.regions.items()}


class Stage:
    def __init__(self, pipeline: ShippedPipeline) -> None:
        self._source = pipeline.source
        self._regions = runners(pipeline)

    def run(self, batch: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
        """`first`: how many rows of this task came before; for rows without a position."""
        if len(self._regions) == 1 and "port" not in batch.schema.names:
            [region] = self._regions.values()
            yield from self._run(region, columns_of(batch), first)
            return
        given: Any = batch if "port" in batch.schema.names else with_ports(batch)
        ports: Column = given.column("port")
        made: dict[tuple[str, bool], list[Any]] = {}
        for port, region in self._regions.items():
            picked = columns_of(given.filter(_compute.equal(ports, port)))
            for one in self._run(region, picked, first):
                if one.num_rows:
                    made.setdefault(_exit(one), []).append(one)
        for some in made.values():
            yield from some if len(some) == 1 else _in_order(some)

    def _run(self, region: "BlockRunner", columns: Mapping[str, Column], first: int) -> Iterator[pa.RecordBatch]:
        values: Column = columns["value"]
        count = len(values)
        if not count:
            return
        positions: Column = columns.get("position") if region.draws else None
        rows = RowBlock(
            values,
            range(first, first + count) if positions is None else positions.to_pylist(),
            _listed(columns.get("ingest_ns"), count) if region.asks else (),
            _listed(columns.get("meta"), count) if region.reads_meta else (),
        )
        for exit, out in region.run(rows).items():
            yield self._batch(exit, out, columns)
        if rows.refused:
            yield self._errors(rows, columns)

    def _batch(self, exit: str, out: "LeavingRows", columns: Mapping[str, Column]) -> pa.RecordBatch:
        numbers = pa.array(out.numbers, pa.int64())
        nth: Column = pa.array(_nth(out.numbers), pa.int32()) if out.repeats else _zeros(len(out.numbers))
        if out.values is None:
            value = columns["value"].take(numbers).cast(pa.string())
        else:
            value = strings(json.lines(out.values), len(out.values))
        meta = _taken(columns.get("meta"), numbers, pa.string())
        if out.metas is not None:
            meta = pa.array(out.metas, pa.string())
        return _rows(exit, columns, numbers, nth, meta, value, pa.nulls(len(numbers), pa.string()))

    def _errors(self, rows: RowBlock, columns: Mapping[str, Column]) -> pa.RecordBatch:
        refused = sorted(rows.refused, key=lambda one: one.number)
        numbers = [one.number for one in refused]
        values = [error_text(self._source, one, rows) for one in refused]
        return _rows(
            ERR,
            columns,
            pa.array(numbers, pa.int64()),
            pa.array(_nth(numbers), pa.int32()),
            pa.array([ERROR_META] * len(refused), pa.string()),
            pa.array(values, pa.string()),
            pa.array([one.reason for one in refused], pa.string()),
        )


def error_text(source: str, one: RefusedRow, rows: RowBlock | None) -> str:
    """As the daemon writes it. `rows`: that it came with; None for what came of time alone, which is no event."""
    told: dict[str, object] = {"error": one.reason, "source": source, "stream_id": 0}
    if one.at is not None:
        told["at"] = one.at
    if one.text is not None:
        told["text"] = one.text
        return json.text(told)
    payload = b"null" if rows is None else rows.payload(one.number)
    text = json.text(told)
    if payload.count(b"[") + payload.count(b"{") >= json.DEEPEST:
        return text
    event = payload.replace(b"\n", b" ").decode()
    return f'{text[:-1]},"event":{event}}}'


def _exit(made: pa.RecordBatch) -> tuple[str, bool]:
    """What `enveloped_rows` tells apart: the port, and whether its events were rejected."""
    columns = columns_of(made)
    return str(columns["port"][0]), columns["error"].null_count < made.num_rows


def _in_order(batches: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """Several inputs lead to one output: what leaves there has the order of the log again."""
    table: Any = _arrow.Table.from_batches(batches)
    if table.column("position").null_count == 0:
        table = table.sort_by([("position", "ascending"), ("nth", "ascending")])
    yield from table.combine_chunks().to_batches()


def columns_of(batch: Any) -> dict[str, Column]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _nth(numbers: Sequence[int]) -> list[int]:
    """Of what one event has made, the first one, the second one, …"""
    seen: Counter[int] = Counter()
    found: list[int] = []
    for number in numbers:
        found.append(seen[number])
        seen[number] += 1
    return found


def _listed(column: Column, count: int) -> Sequence[Any]:
    return [None] * count if column is None else column.to_pylist()


def _taken(column: Column, numbers: Column, kind: Any) -> Column:
    found: Column = _arrow.nulls(len(numbers), kind) if column is None else column.take(numbers)
    return found


def _zeros(count: int) -> Column:
    return pa.array(np.zeros(count, np.int32))


def strings(lines: bytes, count: int) -> Column:
    """One string a line, without its newline. Text that is made has no other."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == 10)
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends - np.arange(count)
    data = lines.replace(b"\n", b"")
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets.data), pa.py_buffer(data)])


def _rows(
    port: str, columns: Mapping[str, Column], numbers: Column, nth: Column, meta: Column, value: Column, error: Column
) -> pa.RecordBatch:
    arrays: list[Column] = [
        _arrow.repeat(port, len(numbers)),
        _taken(columns.get("position"), numbers, pa.int64()),
        nth,
        _taken(columns.get("ingest_ns"), numbers, pa.int64()),
        meta,
        value,
        error,
    ]
    batch: pa.RecordBatch = _arrow.RecordBatch.from_arrays(arrays, schema=ROWS)
    return batch
