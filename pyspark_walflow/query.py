"""One pipeline on Spark: the session it needs, the stream it reads, where its rows go."""

import json
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard, cast

from pyspark_walflow import bundle
from pyspark_walflow.condense import JobRefusal
from pyspark_walflow.quiet import CLOSES, LEAST
from pyspark_walflow.reuse import QUICK_TASKS
from walflow_kernel.shipped import Keeping, shipped_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_FILE: Final = "query.sql"  # in the checkpoint: what it was made by
PIPELINE_FILE: Final = "pipeline.txt"
MOST_SHUFFLED: Final = 200  # tasks of a batch, unless `conf` says so
PROCESSORS: Final = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Plan(NamedTuple):
    """What the daemon says, as JSON. `options`: of format("walflow"). `scratch`: a directory for Spark's own files.
    `results`: rows go back to the daemon. `package`: a zip with this package, for the driver and its workers here."""

    name: str
    query: str | None
    job: str | None
    output_mode: str
    master: str | None
    conf: dict[str, str]
    checkpoint: str
    trigger_ms: int | None
    options: dict[str, str]
    results: bool
    scratch: str
    package: str
    report: int  # descriptor for what it has to say
    check: bool = False
    pipeline: str | None = None  # a walflow_kernel.shipped.ShippedPipeline, packed, in base64

    @property
    def local(self) -> bool:
        return self.chosen_master.startswith("local")

    @property
    def chosen_master(self) -> str:
        # local[N] never tries a task again; the second number says how often it may
        return self.master or self.conf.get("spark.master") or f"local[{PROCESSORS},4]"

    @property
    def keeping(self) -> Keeping | None:
        """What a pipeline with state keeps."""
        return None if self.pipeline is None else shipped_of(self.pipeline).keeping

    @classmethod
    def parse(cls, text: str) -> "Plan":
        return cls(**json.loads(text))


def session(plan: Plan) -> "SparkSession":
    from pyspark.sql import SparkSession

    local = Path(plan.scratch, "local")
    shutil.rmtree(local, ignore_errors=True)  # of a run that was killed
    builder = SparkSession.builder.master(plan.chosen_master)
    for key, value in {**_defaults(plan, str(local)), **plan.conf}.items():
        if key != "spark.master":
            builder = builder.config(key, value)
    if plan.local:
        local.mkdir(parents=True)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif "spark.pyspark.python" in plan.conf:  # which spark-submit alone would read
        os.environ["PYSPARK_PYTHON"] = plan.conf["spark.pyspark.python"]
    # the driver's own Python processes run what executors run, `python3` unless told: here, this one
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.environ["PYTHONPATH"] = os.pathsep.join(_python_path(plan))
    return builder.getOrCreate()


def _defaults(plan: Plan, local: str) -> dict[str, str]:
    everywhere = {
        "spark.app.name": f"walflow {plan.name}",
        "spark.ui.enabled": str(
            plan.local
        ).lower(),  # on a cluster it listens on every address, and asks for no password
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(Path(plan.scratch, "warehouse")),
        **QUICK_TASKS,
    }
    keeping = plan.keeping
    if keeping is not None:
        everywhere["spark.sql.shuffle.partitions"] = str(min(keeping.buckets, MOST_SHUFFLED))
    if not plan.local:
        return everywhere | {"spark.submit.pyFiles": str(bundle.write(Path(plan.scratch)))}
    return everywhere | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": local,
        # 200 would be 200 tasks a batch
        "spark.sql.shuffle.partitions": str(PROCESSORS if keeping is None else min(PROCESSORS, keeping.buckets)),
    }


def _python_path(plan: Plan) -> list[str]:
    """For workers: this package, and what lies beside the job."""
    beside = [os.path.dirname(os.path.abspath(plan.job))] if plan.job else []
    already = os.environ.get("PYTHONPATH")
    return [plan.package, *beside, *([already] if already else [])]


def start(spark: "SparkSession", plan: Plan) -> list["StreamingQuery"]:
    """Starts the queries of the plan, and returns them."""
    from pyspark_walflow.acks import attach

    options = reading(plan, spark.sparkContext.defaultParallelism)
    stream = spark.readStream.format("walflow").options(**options, **_ticks(plan)).load()
    attach(spark, **plan.options)
    if plan.query is not None:
        stream.createOrReplaceTempView("in")
        return [_send(spark.sql(plan.query), plan)]
    if plan.pipeline is not None:
        from pyspark_walflow.over_data import enveloped

        return [_send(enveloped(shipped_of(plan.pipeline), stream), plan)]
    assert plan.job is not None
    made = load_job(plan.job)(spark, stream)
    if _is_frame(made):
        if not plan.results:
            raise JobRefusal(
                f"{plan.job}: pipeline() returned a DataFrame, and nothing is linked to `out`",
                "link `out`, or start the query in the job and return nothing",
            )
        _send(made, plan)
    return list(spark.streams.active)


def reading(plan: Plan, cores: int) -> dict[str, str]:
    """Options of the stream. `cores`: of the executors that are there; a source cannot ask for it itself. More may
    come: so what `conf` asks for counts as well."""
    if {"maxpartitions", "minpartitions"} & {name.lower() for name in plan.options}:
        return plan.options
    asked = _number(plan, "spark.executor.instances") * max(1, _number(plan, "spark.executor.cores"))
    most = max(cores, asked, _number(plan, "spark.cores.max"), _number(plan, "spark.default.parallelism"))
    return {**plan.options, "maxPartitions": str(max(1, most))}


def _number(plan: Plan, key: str) -> int:
    value = plan.conf.get(key, "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 6 else 0


def _ticks(plan: Plan) -> dict[str, str]:
    """How long the source goes on telling the time where nothing comes."""
    keeping = plan.keeping
    if keeping is None or not keeping.closes_ns:
        return {}
    return {CLOSES: str(keeping.closes_ns), LEAST: str(keeping.least_ns)}


def check(spark: "SparkSession", plan: Plan) -> None:
    """Raises what `start` would, without a daemon. A job is loaded and not called: it may do anything."""
    if plan.job is not None:
        load_job(plan.job)
        return
    if plan.pipeline is not None:
        from pyspark_walflow.over_data import refuse_missing

        refuse_missing(spark, shipped_of(plan.pipeline))
        return
    rows = spark.readStream.format("rate").load()
    columns = ("value AS position", "timestamp AS ingest_ts", "CAST(null AS string) AS key")
    value = f"CAST('' AS {plan.options.get('value', 'string')}) AS value"
    rows.selectExpr(*columns, value).createOrReplaceTempView("in")
    frame = spark.sql(plan.query or "")
    with tempfile.TemporaryDirectory(dir=plan.scratch) as checkpoint:
        writer = _streaming(frame).format("noop").outputMode(plan.output_mode)
        writer.option("checkpointLocation", checkpoint).start().stop()


def compile_job(job: str) -> None:
    """What can be said of it before a session costs ten seconds. Raises JobRefusal."""
    try:
        compile(Path(job).read_bytes(), job, "exec")
    except OSError as error:
        raise JobRefusal(f"cannot read the job {job}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise JobRefusal(f"{job}{line}: {type(error).__name__}: {error}") from None


def load_job(job: str) -> "Callable[[SparkSession, DataFrame], object]":
    sys.path.insert(0, os.path.dirname(os.path.abspath(job)))
    # a name that is in no sys.modules: so its functions travel to the workers by value
    pipeline = runpy.run_path(job, run_name="walflow_job").get("pipeline")
    if not callable(pipeline):
        raise JobRefusal(
            f"{job} defines no function `pipeline`", "def pipeline(spark, stream): return stream.where(…)"
        )
    return cast("Callable[[SparkSession, DataFrame], object]", pipeline)


def keep_query(plan: Plan) -> None:
    """Beside Spark's own files lies what made them: the last query, or pipeline, that did a batch with them."""
    kept = _kept(plan)
    kept.parent.mkdir(parents=True, exist_ok=True)
    new = kept.with_suffix(".new")
    new.write_text(_kept_text(plan))
    new.replace(kept)


def refuse_change(plan: Plan) -> None:
    """Spark would go on with another query's windows as long as their columns fit, and count wrongly without a word.
    Raises JobRefusal."""
    kept = _kept(plan)
    if not kept.exists() or kept.read_text() == _kept_text(plan) or not Path(plan.checkpoint, "state").exists():
        return
    anew = (
        "name another `checkpoint` to begin anew without them behind what is committed (rows of the last batch "
        "may come twice)"
    )
    if plan.pipeline is not None:
        raise JobRefusal(
            f"the checkpoint in {plan.checkpoint} holds windows and `state` of this pipeline before it was changed",
            f"put back the pipeline, its args and `buckets`, or {anew}",
        )
    raise JobRefusal(
        f"the checkpoint in {plan.checkpoint} holds windows and counts of another query",
        f"put back the query in {kept}, or {anew}, or `rm {kept}` to go on with them as they are",
    )


def _kept(plan: Plan) -> Path:
    return Path(plan.checkpoint, QUERY_FILE if plan.pipeline is None else PIPELINE_FILE)


def _kept_text(plan: Plan) -> str:
    if plan.pipeline is None:
        return f"{plan.output_mode}\n{(plan.query or '').strip()}\n"
    keeping = plan.keeping
    return f"{'without state' if keeping is None else keeping.identity}\n"


def _send(frame: "DataFrame", plan: Plan) -> "StreamingQuery":
    """Its rows go to the daemon, each of them once."""
    writer = _streaming(_as_lines(frame)).format("walflow").options(**plan.options).outputMode(plan.output_mode)
    writer = writer.queryName(f"walflow {plan.name}")  # on Spark's page
    if plan.trigger_ms is not None:
        writer = writer.trigger(processingTime=f"{plan.trigger_ms} milliseconds")
    return writer.option("checkpointLocation", plan.checkpoint).start()


def _as_lines(frame: "DataFrame") -> "DataFrame":
    """One column of JSON; a frame that has nothing but a string named `value` is that already."""
    if [(name.lower(), kind) for name, kind in frame.dtypes] == [("value", "string")]:
        return frame
    return frame.selectExpr("to_json(struct(*)) AS value")


def _streaming(frame: "DataFrame") -> "DataStreamWriter":
    if not frame.isStreaming:
        raise JobRefusal("the query reads no stream", "it has to read the view `in`: SELECT … FROM in")
    return frame.writeStream


def _is_frame(made: object) -> "TypeGuard[DataFrame]":
    from pyspark.sql import DataFrame

    return isinstance(made, DataFrame)
