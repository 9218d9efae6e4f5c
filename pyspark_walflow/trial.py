"""`python -m pyspark_walflow.trial REQUEST RESULT`: many small pipelines over many small inputs, in one streaming
query.

`walflow test --engine spark` starts it. REQUEST is JSON: `{"pipelines": [base64, …], "batches": [[row, …], …]}`, a
row being `[pipeline, port, position, ingest_ns, meta, value]`. Each of `batches` becomes one micro-batch. RESULT gets
a line of JSON for each row that leaves: `[pipeline, port, position, nth, ingest_ns, meta, value, error]`.
"""

import base64
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from pyspark_walflow.condense import condense
from pyspark_walflow.dealer import PACKED, deal, from_bytes, packed_row
from pyspark_walflow.driver import EX_CONFIG, versions
from pyspark_walflow.keeper import RESULTS, STATE, keep_packed
from pyspark_walflow.query import Plan, session
from pyspark_walflow.stage import COLUMNS, SCHEMA, columns_of, run_stage, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Sequence[object]
_arrow: Any = pa
_compute: Any = pyarrow.compute
_parquet: Any = pyarrow.parquet
OUTPUT: Final = f"pipeline int, {SCHEMA}"
BUCKETS: Final = 64  # of one pipeline, at most
FIRST_SECOND: Final = 1_000_000_000  # since 1970; any
_FIELDS: Final = (
    ("pipeline", pa.int32()),
    ("port", pa.string()),
    ("position", pa.int64()),
    ("ingest_ns", pa.int64()),
    ("meta", pa.string()),
    ("value", pa.string()),
)
INPUT: Final = _arrow.schema([pa.field(name, kind) for name, kind in _FIELDS])


def table(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [[row[at] for row in rows] for at in range(len(_FIELDS))]
    batch: pa.RecordBatch = _arrow.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, (_, kind) in zip(columns, _FIELDS, strict=True)], schema=INPUT
    )
    return batch


def run_trial(packed: Mapping[int, bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row through its pipeline."""
    each: Any
    for each in batches:
        numbers = each.column(0)
        for number in _compute.unique(numbers).to_pylist():
            if number not in packed:
                continue
            rows: Any = each.filter(_compute.equal(numbers, number))
            made: Any
            for made in run_stage(packed[number], [rows]):
                yield _numbered(number, made)


def deal_trial(
    packed: Mapping[int, bytes], stateful: AbstractSet[int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of pipelines with state, to the buckets of each."""
    each: Any
    for each in batches:
        numbers = each.column(0)
        for number in _compute.unique(numbers).to_pylist():
            if number in stateful:
                pipeline = unpacked(packed[number])
                rows: Any = each.filter(_compute.equal(numbers, number))
                for bucket, some in deal(pipeline, [rows], 0, ticks=True):
                    yield packed_row(number * BUCKETS + bucket, some)


def keep_trial(packed: Mapping[int, bytes], key: tuple[Any, ...], frames: Iterable[Any], group: Any) -> Iterator[Any]:
    number = key[0] // BUCKETS
    for made in keep_packed(packed[number], key, frames, group):
        yield made.assign(pipeline=number)


def unpack_trial(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = columns_of(batch)
        for number, blob in zip(columns["pipeline"].to_pylist(), columns["packed"], strict=True):
            for made in from_bytes(blob.as_buffer()):
                yield _numbered(number, made)


def _numbered(number: int, made: Any) -> pa.RecordBatch:
    column = pa.array([number] * made.num_rows, pa.int32())
    out: pa.RecordBatch = _arrow.RecordBatch.from_arrays(
        [column, *made.columns], names=["pipeline", *made.schema.names]
    )
    return out


def write_batches(batches: Sequence[Sequence[Row]], folder: Path) -> None:
    """A file each, which Spark reads in this order. `folder` is made."""
    folder.mkdir()
    for number, batch in enumerate(batches):
        file = folder / f"{number:06}.parquet"
        _parquet.write_table(pa.Table.from_batches([table(batch)]), file)
        # Spark takes files by the millisecond of their last change, and two of one millisecond in any order
        os.utime(file, (FIRST_SECOND + number, FIRST_SECOND + number))


def run_request(spark: "SparkSession", request: Mapping[str, Any], scratch: Path) -> list[Row]:
    """`scratch`: an empty directory."""
    packed = {number: base64.b64decode(text) for number, text in enumerate(request["pipelines"])}
    stateful = frozenset(number for number, one in packed.items() if unpacked(one).keeping is not None)
    given = scratch / "given"
    write_batches(request["batches"], given)
    rows: list[Row] = []
    if len(stateful) < len(packed):
        others = {number: one for number, one in packed.items() if number not in stateful}
        stream = _stream(spark, given)
        rows += _made(stream.mapInArrow(partial(run_trial, others), OUTPUT), scratch / "stateless")
    if stateful:
        dealt = _stream(spark, given).mapInArrow(partial(deal_trial, packed, stateful), PACKED)
        step: Any = partial(keep_trial, packed)
        kept = dealt.groupBy("bucket").applyInPandasWithState(
            step, f"{RESULTS}, pipeline int", STATE, "append", _no_timeout()
        )
        rows += _made(kept.mapInArrow(unpack_trial, OUTPUT), scratch / "stateful")
    return rows


def _stream(spark: "SparkSession", given: Path) -> "DataFrame":
    return spark.readStream.schema(_schema()).option("maxFilesPerTrigger", 1).parquet(str(given))


def _made(frame: "DataFrame", folder: Path) -> list[Row]:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "made")).awaitTermination()
    found = frame.sparkSession.read.parquet(str(folder / "made"))
    return [list(row) for row in found.select("pipeline", *COLUMNS).collect()]


def _no_timeout() -> str:
    from pyspark.sql.streaming.state import GroupStateTimeout

    found: str = GroupStateTimeout.NoTimeout
    return found


def main(path: str, result: str) -> int:
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="walflow-test-") as folder:
        scratch = Path(folder)
        plan = Plan(
            "walflow test", None, None, "append", None, {}, "", None, {}, False, str(scratch / "session"), "", 0
        )
        try:
            versions()
            spark = session(plan)
            spark.sparkContext.setLogLevel("OFF")
            rows = run_request(spark, request, scratch)
            spark.stop()
        except Exception as error:  # noqa: BLE001 - any error is one line
            trouble = condense(error, "")
            sys.stderr.write(f"{trouble.message}{f': {trouble.hint}' if trouble.hint else ''}\n")
            return EX_CONFIG if trouble.lasting else 1
    with open(result, "w", encoding="utf-8") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in rows)
    return 0


def _schema() -> str:
    kinds = {"pipeline": "int", "position": "long", "ingest_ns": "long"}
    return ", ".join(f"{name} {kinds.get(name, 'string')}" for name, _ in _FIELDS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
