"""`python -m pyspark_walflow.trial REQUEST RESULT`: many small pipelines over many small inputs, in one streaming query.

`walflow test --engine spark` starts it. REQUEST is JSON: `{"pipelines": [base64, …], "batches": [[row, …], …]}`, a
row being `[pipeline, port, position, ingest_ns, meta, value]`. Each of `batches` becomes one micro-batch. RESULT gets a line
of JSON for each row that leaves: `[pipeline, port, position, nth, ingest_ns, meta, value, error]`.
"""

import base64
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from pyspark_walflow.condense import condense
from pyspark_walflow.driver import EX_CONFIG, versions
from pyspark_walflow.query import Plan, session
from pyspark_walflow.stage import COLUMNS, SCHEMA, run_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Sequence[object]
_arrow: Any = pa
_compute: Any = pyarrow.compute
_parquet: Any = pyarrow.parquet
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
            rows: Any = each.filter(_compute.equal(numbers, number))
            made: Any
            for made in run_stage(packed[number], [rows]):
                column = pa.array([number] * made.num_rows, pa.int32())
                out: pa.RecordBatch = _arrow.RecordBatch.from_arrays(
                    [column, *made.columns], names=["pipeline", *made.schema.names]
                )
                yield out


def run_request(spark: "SparkSession", request: Mapping[str, Any], scratch: Path) -> list[Row]:
    """`scratch`: an empty directory."""
    packed = {number: base64.b64decode(text) for number, text in enumerate(request["pipelines"])}
    given = scratch / "given"
    given.mkdir()
    for number, rows in enumerate(request["batches"]):
        _parquet.write_table(pa.Table.from_batches([table(rows)]), given / f"{number:06}.parquet")
    stream = spark.readStream.schema(_schema()).option("maxFilesPerTrigger", 1).parquet(str(given))
    made = stream.mapInArrow(partial(run_trial, packed), f"pipeline int, {SCHEMA}")
    writer = made.writeStream.format("parquet").option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).start(str(scratch / "made")).awaitTermination()
    return [list(row) for row in spark.read.parquet(str(scratch / "made")).select("pipeline", *COLUMNS).collect()]


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
