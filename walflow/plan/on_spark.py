"""`#!config engine = "spark"`: a pipeline is lowered to what Spark has already: a log in front, a driver that reads
it, and the results, published once.

    in -> [log, Spark, log of results] -> opened into the pipeline's outputs

Several inputs share the log; each has an operator in front of it that marks its events.

The log and the driver are one connector, the one with the role `engine`, which stands in the pipeline as a `qos::wal`
does; `domains.split` makes a connector of it. What is in the pipeline's own text goes to the driver, compiled.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from walflow.codecs import JSON
from walflow.compile.constant import Constant
from walflow.diagnostics import Diagnostic, Report, Span
from walflow.engines import SPARK
from walflow.framing import LINES, Outgoing
from walflow.lang.config import EngineConfig, NodeId, PipelineConfig
from walflow.operators.from_spark import FromSpark
from walflow.operators.passthrough import Passthrough
from walflow.operators.to_spark import ToSpark
from walflow.plan.assembly import ERR, ConnectorPlan, OperatorPlan, PipelinePlan, PlannedSelect
from walflow.plan.second_host import ship_pipeline
from walflow.plan.spark_file import merged, read_spark_file
from walflow.plan.validate import configure
from walflow.registry import Registry, find, type_of
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow.warnings.stays_in_daemon import STAYS_IN_DAEMON
from walflow_kernel.shipped import packed_text

Engine = str

LOG: Final = SPARK  # the place of the connector within the pipeline
MARK: Final = "spark_input"
RESULTS: Final = "spark_results"
FOLDER: Final = SPARK  # below --workdir


class SparkSettings(BaseModel):
    """`#!config spark = {…}`"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dir: str | None = Field(
        default=None,
        min_length=1,
        description="Directory of the log in front. Default: `spark/FLOW.PIPELINE`, relative to --workdir.",
    )
    master: str | None = Field(
        default=None, description="Spark's master URL. Default: `local[N,4]` with N processors."
    )
    conf: dict[str, str] = Field(default={}, description="Spark's own configuration, with its names.")
    checkpoint: str | None = Field(
        default=None, min_length=1, description="Directory of Spark's checkpoint. Default: `checkpoint` in `dir`."
    )
    partitions: int | None = Field(
        default=None, ge=1, description="Number of tasks of a batch. Default: one for each 16 MiB."
    )
    buckets: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description=(
            "Number of parts into which the groups of windows are dealt. Each is one task of a batch at most. "
            "Default: 8."
        ),
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="The Python interpreter that has pyspark. Default: the one that runs walflow.",
    )
    url: str = Field(default="127.0.0.1:0", description="host:port where Spark finds the log. Default: a free port.")
    trigger_interval: int | None = Field(default=None, gt=0, description="Nanoseconds between the starts of batches.")
    max_rows_per_batch: int | None = Field(default=None, ge=1, description="The most events that one batch reads.")
    max_chunks: int | None = Field(default=None, ge=1, description="The most files of the log, of 64 MiB each.")


class Hosting(NamedTuple):
    """`engine`: where a pipeline runs that does not say so itself. `settings`: of `--spark-config`, for each one on
    Spark. What a pipeline sets itself counts before them."""

    engine: Engine | None = None
    settings: Constant | None = None


NOWHERE_ELSE: Final = Hosting()


def spark_settings(file: Path, order: int, report: Report) -> Constant | None:
    """Of a file. What is wrong with it is reported once, not for each pipeline; then there are none."""
    settings = read_spark_file(file, order, report)
    if settings is None:
        return None
    sound, found = configure(SPARK, SparkSettings, settings, settings.span, bare=True)
    for diagnostic in found:
        report(diagnostic)
    return None if sound is None else settings


def unused_settings(hosting: Hosting, pipelines: Sequence[PipelinePlan], report: Report) -> None:
    if hosting.settings is None or any(one.kind == SPARK for plan in pipelines for one in plan.operators):
        return
    hint = 'move one there: `--engine spark`, or `#!config engine = "spark"` at the head of a pipeline'
    what = "these settings have no effect: no pipeline runs on Spark"
    report(warning(NO_EFFECT, what, hosting.settings.span, hint))


def placed(
    plan: PipelinePlan, config: PipelineConfig, hosting: Hosting, registry: Registry, report: Report
) -> PipelinePlan:
    """What cannot run on Spark and is not told to stays in the daemon, with a warning."""
    said = config.engine
    settings = merged(said.settings if said else None, hosting.settings)
    if said is not None and said.said:
        there = EngineConfig(SPARK, True, settings)
        return lowered(plan, config, there, registry, report) if said.name == SPARK else plan
    plain = not plan.scripts and not plan.operators and all(select.plain for select in plan.selects)
    if hosting.engine != SPARK or plain:  # there is nothing to work out: a log and a JVM would be for nothing
        return plan
    found: list[Diagnostic] = []
    made = lowered(plan, config, EngineConfig(SPARK, True, settings), registry, found.append)
    for diagnostic in found:
        what = f"pipeline `{plan.id}` stays in the daemon: {diagnostic.message}"
        report(warning(STAYS_IN_DAEMON, what, diagnostic.span or config.created, diagnostic.hint))
    return made


def lowered(
    plan: PipelinePlan, config: PipelineConfig, engine: EngineConfig, registry: Registry, report: Report
) -> PipelinePlan:
    """The plan itself where something is wrong, which was reported."""
    settings, found = configure(SPARK, SparkSettings, engine.settings, config.defined, bare=True)
    for diagnostic in found:
        report(diagnostic)
    type = type_of("engine")
    of = find(type, registry)
    shipped = ship_pipeline(plan, report, None if settings is None else settings.buckets)
    if settings is None or of is None or shipped is None or not plan.inputs:
        return plan
    several = len(plan.inputs) > 1
    marks = {port: f"{LOG}_{port}" for port in plan.inputs if several}
    node = NodeId(plan.id.flow, "connector", f"{plan.id.name}/{LOG}")
    folder = str(PurePath(FOLDER, f"{plan.id.flow}.{plan.id.name}"))
    given = {
        "path": settings.dir or folder,
        "url": settings.url,
        "pipeline": packed_text(shipped),
        "master": settings.master,
        "conf": settings.conf,
        "checkpoint": settings.checkpoint,
        "options": {} if settings.partitions is None else {"numPartitions": str(settings.partitions)},
        "python": settings.python,
        "trigger_interval": settings.trigger_interval,
        **{
            name: value
            for name, value in (
                ("max_rows_per_batch", settings.max_rows_per_batch),
                ("max_chunks", settings.max_chunks),
            )
            if value is not None
        },
    }
    connector = of.model_validate(given)
    written = places(engine.settings or Constant({}, config.defined))
    run_as = ConnectorPlan(node, type, connector, JSON, None, Outgoing((), LINES), config.defined, written)
    outputs = tuple(dict.fromkeys((*plan.outputs, ERR)))
    opened = FromSpark(outputs=outputs)
    return PipelinePlan(
        plan.id,
        plan.inputs,
        plan.outputs,
        (
            *(PlannedSelect(port, marks.get(port, LOG)) for port in plan.inputs),
            *(PlannedSelect(f"{mark}/out", LOG) for mark in marks.values()),
            PlannedSelect(f"{LOG}/out", RESULTS),
            *(PlannedSelect(f"{RESULTS}/{output}", output) for output in plan.outputs),
        ),
        (),
        (
            *(OperatorPlan(mark, MARK, ToSpark(input=port), config.defined) for port, mark in marks.items()),
            OperatorPlan(LOG, SPARK, Passthrough(), config.defined, run_as),
            OperatorPlan(RESULTS, RESULTS, opened, config.defined),
        ),
    )


def places(settings: Constant) -> Mapping[str | int, Span]:
    """Where each value is written. `conf` has its members too, as `conf.NAME`."""
    found = {key: part.constant.span for key, part in settings.parts.items()}
    if "conf" in settings.parts:
        conf = settings.parts["conf"].constant
        found |= {f"conf.{key}": part.constant.span for key, part in conf.parts.items()}
    return found
