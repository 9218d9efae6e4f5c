"""A pipeline for Spark: its regions as plain data that goes to executors, or what of it cannot go there, and why."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from walflow.compile.program import CallOf, Term, functions, walk
from walflow.compile.region import Region
from walflow.compile.shipment import NotShippable, is_ours, ship
from walflow.diagnostics import Diagnostic, Report, error, has_errors, in_order
from walflow.lang.standalone import standalone
from walflow.operators import registered
from walflow.plan.assembly import PipelinePlan
from walflow.plan.buckets import BUCKETS, KeptRegion, keeping
from walflow.plan.pipelines import plan_pipeline
from walflow.registry import connectors
from walflow_kernel.shipped import ShippedPipeline


def load_pipeline(
    file: str | Path, name: str, args: Mapping[str, object], buckets: int | None = None
) -> tuple[ShippedPipeline | None, list[Diagnostic]]:
    """The pipeline `name` that a file defines, None where there is an error. `buckets`: see `ship_pipeline`."""
    found: list[Diagnostic] = []
    config = standalone(Path(file), name, args, found.append)
    plan = None if config is None or has_errors(found) else plan_pipeline(config, connectors(), found.append)
    shipped = None if plan is None or has_errors(found) else ship_pipeline(plan, found.append, buckets)
    return shipped, in_order(found)


def ship_pipeline(plan: PipelinePlan, report: Report, buckets: int | None = None) -> ShippedPipeline | None:
    """None: what is wrong was reported. `buckets`: into how many parts the groups of its windows are dealt."""
    refused = list(_refused(plan))
    for diagnostic in refused:
        report(diagnostic)
    if refused:
        return None
    kept: list[KeptRegion] = []
    for port in plan.inputs:
        region = plan.regions[port]
        foreign = list(_foreign(region))
        for diagnostic in foreign:
            report(diagnostic)
        if foreign:
            return None
        kept.append(KeptRegion(port, region, plan.regions.compiled(port)))
    try:
        regions = {one.port: ship(one.compiled) for one in kept}
        keeps = keeping(kept, buckets or BUCKETS)
    except NotShippable as why:
        report(error(f"pipeline `{plan.id}` cannot go to Spark's executors: {why} is not part of walflow"))
        return None
    return ShippedPipeline(str(plan.id), plan.outputs, regions, hash_of(str(plan.id)), keeps)


def _refused(plan: PipelinePlan) -> Iterator[Diagnostic]:
    for operator in plan.operators:
        flow_control = operator.kind.startswith("qos::")
        hint = (
            (
                "it holds back what goes to a sink, and the sinks are not on Spark: "
                "put it into a pipeline of its own behind this one"
            )
            if flow_control
            else "put it into a pipeline of its own before or behind this one, which runs in the daemon"
        )
        assert operator.kind in registered()
        yield error(f"operator {operator.kind} does not run on Spark", operator.created, hint)


def _foreign(region: Region) -> Iterator[Diagnostic]:
    """Calls of functions that other distributions have registered."""
    terms: list[Term] = [script.body for script in region.scripts.values()]
    terms += [
        term
        for rules in region.places.values()
        for rule in rules
        for term in (rule.what, rule.where, rule.having)
        if term is not None
    ]
    windows = [rule.windows for rules in region.places.values() for rule in rules if rule.windows is not None]
    terms += [term for one in windows for term in one.event_terms]
    terms += [one.body for one in functions(terms) if one.body is not None]
    for term in terms:
        for one in walk(term):
            if isinstance(one, CallOf) and not is_ours(one.function):
                hint = "Spark's executors get walflow's own functions and no others"
                yield error(f"function `{one.name}` does not run on Spark", one.span, hint)


def hash_of(name: str) -> int:
    """The same in every process."""
    return int.from_bytes(name.encode()[-8:], "big")
