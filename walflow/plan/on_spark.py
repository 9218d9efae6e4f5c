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

from walflow.codecs import JSON
from walflow.compile.constant import Constant
from walflow.contract import PipelineHost
from walflow.diagnostics import Diagnostic, Report, Span
from walflow.framing import LINES, Outgoing
from walflow.lang.config import NodeId, PipelineConfig
from walflow.operators.from_spark import FromSpark
from walflow.operators.passthrough import Passthrough
from walflow.operators.to_spark import ToSpark
from walflow.plan.assembly import ERR, ConnectorPlan, OperatorPlan, PipelinePlan, PlannedSelect
from walflow.plan.second_host import ship_pipeline
from walflow.plan.spark_file import merged, read_spark_file
from walflow.plan.validate import configure
from walflow.plugins import NotLoadable
from walflow.registry import Registry, find
from walflow.roles import type_of
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow.warnings.stays_in_daemon import STAYS_IN_DAEMON
from walflow_kernel.shipped import packed_text

Engine = str

MARK: Final = "spark_input"
RESULTS: Final = "spark_results"


class Hosting(NamedTuple):
    """`engine`: where a pipeline runs that does not say so itself. `settings`: of `--spark-config`, for each one on
    Spark. What a pipeline sets itself counts before them."""

    engine: Engine | None = None
    settings: Constant | None = None


NOWHERE_ELSE: Final = Hosting()


def spark_settings(file: Path, order: int, registry: Registry, report: Report) -> Constant | None:
    """Of a file. What is wrong with it is reported once, not for each pipeline; then there are none."""
    settings = read_spark_file(file, order, report)
    if settings is None:
        return None
    type, host = host_of(registry)
    sound, found = configure(type, host.settings, settings, settings.span, bare=True)
    for diagnostic in found:
        report(diagnostic)
    return None if sound is None else settings


def unused_settings(hosting: Hosting, pipelines: Sequence[PipelinePlan], report: Report) -> None:
    if hosting.settings is None or any(one.kind == type_of("engine") for plan in pipelines for one in plan.operators):
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
        return lowered(plan, config, settings, registry, report) if said.hosted else plan
    plain = not plan.scripts and not plan.operators and all(select.plain for select in plan.selects)
    if hosting.engine is None or plain:  # there is nothing to work out: a log and a JVM would be for nothing
        return plan
    found: list[Diagnostic] = []
    made = lowered(plan, config, settings, registry, found.append)
    for diagnostic in found:
        what = f"pipeline `{plan.id}` stays in the daemon: {diagnostic.message}"
        report(warning(STAYS_IN_DAEMON, what, diagnostic.span or config.created, diagnostic.hint))
    return made


def lowered(
    plan: PipelinePlan, config: PipelineConfig, said: Constant | None, registry: Registry, report: Report
) -> PipelinePlan:
    """The plan itself where something is wrong, which was reported."""
    log, host = host_of(registry)  # its type is its place within the pipeline too
    settings, found = configure(log, host.settings, said, config.defined, bare=True)
    for diagnostic in found:
        report(diagnostic)
    shipped = ship_pipeline(plan, report, None if settings is None else settings.parts())
    if settings is None or shipped is None or not plan.inputs:
        return plan
    several = len(plan.inputs) > 1
    marks = {port: f"{log}_{port}" for port in plan.inputs if several}
    node = NodeId(plan.id.flow, "connector", f"{plan.id.name}/{log}")
    folder = str(PurePath(log, f"{plan.id.flow}.{plan.id.name}"))
    connector = host.hosting(settings, packed_text(shipped), folder)
    written = places(said or Constant({}, config.defined))
    run_as = ConnectorPlan(node, log, connector, JSON, None, Outgoing((), LINES), config.defined, written)
    outputs = tuple(dict.fromkeys((*plan.outputs, ERR)))
    opened = FromSpark(outputs=outputs)
    return PipelinePlan(
        plan.id,
        plan.inputs,
        plan.outputs,
        (
            *(PlannedSelect(port, marks.get(port, log)) for port in plan.inputs),
            *(PlannedSelect(f"{mark}/out", log) for mark in marks.values()),
            PlannedSelect(f"{log}/out", RESULTS),
            *(PlannedSelect(f"{RESULTS}/{output}", output) for output in plan.outputs),
        ),
        (),
        (
            *(OperatorPlan(mark, MARK, ToSpark(input=port), config.defined) for port, mark in marks.items()),
            OperatorPlan(log, log, Passthrough(), config.defined, run_as),
            OperatorPlan(RESULTS, RESULTS, opened, config.defined),
        ),
    )


def host_of(registry: Registry) -> tuple[str, type[PipelineHost]]:
    """The type with the role `engine`, and its class. Raises NotLoadable."""
    type = type_of("engine")
    found = find(type, registry)
    if found is None or not issubclass(found, PipelineHost):
        raise NotLoadable(f"connector type {type} has the role engine, and is no subclass of walflow.PipelineHost")
    return type, found


def places(settings: Constant) -> Mapping[str | int, Span]:
    """Where each value is written. `conf` has its members too, as `conf.NAME`."""
    found = {key: part.constant.span for key, part in settings.parts.items()}
    if "conf" in settings.parts:
        conf = settings.parts["conf"].constant
        found |= {f"conf.{key}": part.constant.span for key, part in conf.parts.items()}
    return found
