"""`pipeline("flow.troy", "name")`: a pipeline as a function from a DataFrame to a DataFrame, over any data.

    from pyspark_walflow import pipeline

    counted = pipeline("flow.troy", "counting", args={"least": 10})(spark.read.text("old/"))
    counted.where("port = 'out'").select("value").write.text("new/")

It works the same over a stream. walflow is imported here, on the driver, when `pipeline` is called, and nowhere else:
what goes to the executors is generated source, `walflow_kernel` and this package.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark_walflow import bundle
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.requirement import require_spark
from walflow_kernel.shipped import ShippedPipeline, missing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

DEFAULT: Final = "value"
TEXT: Final = ("string", "binary")


def pipeline(
    file: str | PathLike[str],
    name: str,
    args: Mapping[str, object] | None = None,
    *,
    column: str | None = None,
    port: str | None = None,
    buckets: int | None = None,
    flush: bool = False,
) -> "Callable[[DataFrame], DataFrame]":
    """The pipeline `name` of a flow file. `args`: what it is created with. `column`: the one with the events, text or
    bytes; `value`, unless another is the only one of such a type. `port`: the input that all rows come to; without it
    rows come to `in`, or to what their column `port` says if the pipeline has several inputs.

    Columns `position` (long), `ingest_ns` (long) or `ingest_ts` (timestamp), and `meta` (JSON text) are taken for
    what they say, where they are there. Raises WalflowError for what is wrong with the file or cannot run on Spark,
    and for a Spark that is too old.

    A pipeline with state takes its rows in the order of `position`; without such a column in the order of Spark's
    partitions.
    `buckets`: into how many parts the groups of its windows are dealt, 8 unless said. `flush`: windows that are open
    at the end of the data are closed there, and not left out.
    """
    require_spark()
    shipped = load(file, name, args or {}, buckets)
    return partial(run, shipped, column=column, port=port, flush=flush)


def load(
    file: str | PathLike[str], name: str, args: Mapping[str, object], buckets: int | None = None
) -> ShippedPipeline:
    try:
        from walflow.plan.second_host import load_pipeline
    except ImportError as error:
        raise WalflowError(
            "pipeline() needs walflow where the driver runs: install the checkout or its wheel into "
            f"{sys.executable} ({error})"
        ) from None
    shipped, found = load_pipeline(Path(file), name, args, buckets)
    if shipped is None:
        errors = [one for one in found if one.severity == "error"]
        raise WalflowError("\n".join(f"{one}; {one.hint}" if one.hint else str(one) for one in errors))
    return shipped


def run(
    shipped: ShippedPipeline,
    frame: "DataFrame",
    *,
    column: str | None = None,
    port: str | None = None,
    flush: bool = False,
) -> "DataFrame":
    """What the pipeline makes of `frame`, a row an event that leaves; see `stage.SCHEMA`."""
    from pyspark_walflow.stage import SCHEMA, run_stage

    if flush and frame.isStreaming:
        raise WalflowError("flush=True is for data that has an end, and a stream has none")
    picked, one = _input(shipped, frame, column, port)
    spark = frame.sparkSession
    provide(spark)
    refuse_missing(spark, shipped)
    if one.keeping is None:
        return picked.mapInArrow(partial(run_stage, one.packed()), SCHEMA)
    if not frame.isStreaming:
        return _kept_to_the_end(one, picked, flush=flush)
    from pyspark_walflow.keeper import unpack_results

    return _kept(one, picked).mapInArrow(unpack_results, SCHEMA)


def _kept_to_the_end(shipped: ShippedPipeline, frame: "DataFrame", *, flush: bool) -> "DataFrame":
    """Spark sorts, on disk where it must, so a bucket may be larger than memory."""
    from pyspark_walflow.dealer import DEALT, deal_rows
    from pyspark_walflow.keeper import keep_sorted
    from pyspark_walflow.stage import SCHEMA

    assert shipped.keeping is not None
    packed = shipped.packed()
    dealt = frame.mapInArrow(partial(deal_rows, packed), DEALT).repartition(shipped.keeping.buckets, "bucket")
    return dealt.sortWithinPartitions("bucket", "order").mapInArrow(partial(keep_sorted, packed, flush), SCHEMA)


def _kept(shipped: ShippedPipeline, stream: "DataFrame") -> "DataFrame":
    """One column, `packed`: see `keeper.unpack_results`."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    from pyspark_walflow.dealer import PACKED, deal_packed
    from pyspark_walflow.keeper import RESULTS, STATE, keep_packed

    packed = shipped.packed()
    dealt = stream.mapInArrow(partial(deal_packed, packed), PACKED)
    step: Any = partial(keep_packed, packed)  # Spark's type of it knows pandas' frames only
    return dealt.groupBy("bucket").applyInPandasWithState(step, RESULTS, STATE, "append", GroupStateTimeout.NoTimeout)


def enveloped(shipped: ShippedPipeline, stream: "DataFrame") -> "DataFrame":
    """Of the log in front of a pipeline: one column, `value`, with a line for the daemon for each event that leaves;
    see `stage.run_enveloped`."""
    from pyspark_walflow.stage import run_enveloped

    refuse_missing(stream.sparkSession, shipped)
    picked = stream.select("value", "position", "ingest_ns", "meta")
    if shipped.keeping is None:
        return picked.mapInArrow(partial(run_enveloped, shipped.packed()), "value string")
    from pyspark_walflow.keeper import unpack_enveloped

    return _kept(shipped, picked).mapInArrow(unpack_enveloped, "value string")


def _input(
    shipped: ShippedPipeline, frame: "DataFrame", column: str | None, port: str | None
) -> "tuple[DataFrame, ShippedPipeline]":
    """The columns that the stage takes, and the pipeline with the ports that rows come to."""
    from pyspark.sql import functions as sql

    types = dict(frame.dtypes)
    columns: list[Column] = [frame[_column(types, column)].alias("value")]
    if types.get("position") == "bigint":
        columns.append(frame["position"])
    if types.get("ingest_ns") == "bigint":
        columns.append(frame["ingest_ns"])
    else:
        known = types.get("ingest_ts", "").startswith("timestamp")
        time = frame["ingest_ts"] if known else sql.current_timestamp()
        columns.append((sql.unix_micros(time.cast("timestamp")) * 1000).alias("ingest_ns"))
    if types.get("meta") == "string":
        columns.append(frame["meta"])
    several = len(shipped.regions) > 1
    if several and port is None and types.get("port") == "string":
        return frame.select(*columns, frame["port"]), shipped
    chosen = port or ("in" if "in" in shipped.regions else next(iter(shipped.regions)))
    if chosen not in shipped.regions:
        inputs = ", ".join(f"`{known}`" for known in shipped.regions)
        raise WalflowError(f"pipeline {shipped.source} has no input `{chosen}`: there is {inputs}")
    return frame.select(*columns), _of_port(shipped, chosen)


def _of_port(shipped: ShippedPipeline, port: str) -> ShippedPipeline:
    return shipped._replace(regions={port: shipped.regions[port]})


def _column(types: Mapping[str, str], column: str | None) -> str:
    candidates = [name for name, kind in types.items() if kind in TEXT]
    shown = ", ".join(f"{name} {kind}" for name, kind in types.items())
    if column is None:
        if DEFAULT in candidates or len(candidates) == 1:
            return DEFAULT if DEFAULT in candidates else candidates[0]
        raise WalflowError(f"which column holds the events? name it: pipeline(…, column=…); there are {shown}")
    if column not in types:
        raise WalflowError(f"there is no column {column}: there are {shown}")
    if column not in candidates:
        raise WalflowError(f"column {column} is {types[column]}: events are text (string) or bytes (binary)")
    return column


def provide(spark: "SparkSession") -> None:
    """Executors elsewhere get this package and the kernel. On this machine they find what is found here."""
    context: Any = getattr(spark, "_sc", None)
    if context is None:  # Spark Connect
        _provide_connect(spark)
    elif not context.master.startswith("local") and not _provided(context):
        context.addPyFile(str(bundle.write(tempfile.mkdtemp(prefix="walflow-"))))


def _provide_connect(spark: "SparkSession") -> None:
    if not getattr(spark, "_walflow_provided", False):
        spark.addArtifacts(str(bundle.write(tempfile.mkdtemp(prefix="walflow-"))), pyfile=True)
        spark._walflow_provided = True  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def _provided(context: Any) -> bool:
    given: str = context.getConf().get("spark.submit.pyFiles", "") or ""
    files: Iterable[str] = [*given.split(","), *context.listFiles]
    return any(file.endswith(f"/{bundle.PACKAGE}.py") for file in files)


def refuse_missing(spark: "SparkSession", shipped: ShippedPipeline) -> None:
    """Before the first batch. Raises WalflowError."""
    if not shipped.needs:
        return
    look = spark.range(0, 64, 1, 8).mapInArrow(partial(_lacking, shipped.needs), "name string")
    lacking = sorted({str(row["name"]) for row in look.distinct().collect()})
    if lacking:
        raise WalflowError(
            f"pipeline {shipped.source} needs {', '.join(lacking)}, which the executors' Python does not have: "
            "install it there, or ship an environment that has it with --archives"
        )


def _lacking(needs: tuple[tuple[str, str], ...], batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for _ in batches:
        pass
    made: Any = pa.RecordBatch
    yield made.from_arrays([pa.array(missing(needs), pa.string())], names=["name"])
