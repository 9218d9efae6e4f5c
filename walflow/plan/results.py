"""What leaves selects and scripts that keep something from one event to the next goes through a buffer in memory.

An event that is sent again would count twice in what they keep. So their ack domain ends with them: an event is acked
once its results are in the buffer, and these are sent until their sinks have them. There is a buffer for each output
and for each operator that results go to; an operator that ends a domain itself (`qos::wal`) needs none. Each buffer
is a connector in the middle of the pipeline, as such operators are.
"""

from collections.abc import Collection, Iterator, Set as AbstractSet
from dataclasses import replace
from typing import Final, NamedTuple

from walflow.lang.config import NodeId
from walflow.plan.assembly import ERR, ConnectorPlan, Link, PipelinePlan, PlannedSelect, StateDomain
from walflow.registry import Registry, find
from walflow.roles import type_of

RESULTS_BYTES: Final = 16 << 20  # of one buffer


class Buffered(NamedTuple):
    pipeline: PipelinePlan
    connectors: list[ConnectorPlan]
    links: list[Link]


def buffered(pipeline: PipelinePlan, linked: AbstractSet[str], ends: Collection[str], registry: Registry) -> Buffered:
    """`linked`: its outputs that lead anywhere. `ends`: those that lead to an operator that ends an ack domain."""
    found = [region for region in pipeline.regions if region.keeps]
    if not found:
        return Buffered(pipeline, [], [])
    places = frozenset(place for region in found for place in (*region.places, *region.scripts))
    exits = dict.fromkeys(exit for region in found for exit in region.exits)
    if ERR in linked:
        exits.setdefault(ERR)
    within = {operator.name for operator in pipeline.operators}
    held = [exit for exit in exits if exit in within or (exit in linked and exit not in ends)]
    plans = {exit: _buffer(pipeline, exit, registry) for exit in held}
    keeps = tuple(dict.fromkeys(name for region in found for name in region.keeps))
    err = _left(ERR) if ERR in held else ERR
    domain = StateDomain(places, keeps, err, tuple(plan.id for plan in plans.values()))
    links = [link for exit, plan in plans.items() for link in _links(pipeline.id, exit, plan.id, reports=ERR in held)]
    return Buffered(_through(pipeline, held, domain), list(plans.values()), links)


def _buffer(pipeline: PipelinePlan, exit: str, registry: Registry) -> ConnectorPlan:
    type = type_of("buffer")
    of = find(type, registry)
    assert of is not None, "walflow has it"
    node = NodeId(pipeline.id.flow, "connector", f"{pipeline.id.name}/results/{exit}")
    return ConnectorPlan(node, type, of.model_validate({"max_bytes": RESULTS_BYTES}), None, None, None)


def _left(exit: str) -> str:
    """The port by which results leave to their buffer. No file can name it."""
    return f"{exit}/(results)"


def _links(pipeline: NodeId, exit: str, buffer: NodeId, *, reports: bool) -> Iterator[Link]:
    yield Link(pipeline, _left(exit), buffer, "in")
    yield Link(buffer, "out", pipeline, f"{_left(exit)}/out")
    if reports:
        yield Link(buffer, ERR, pipeline, f"{_left(exit)}/err")


def _through(pipeline: PipelinePlan, held: list[str], domain: StateDomain) -> PipelinePlan:
    selects = [
        select._replace(target=_left(select.target))
        if select.source in domain.places and select.target in held
        else select
        for select in pipeline.selects
    ]
    inputs = [f"{_left(exit)}/out" for exit in held]
    selects += [PlannedSelect(back, exit) for back, exit in zip(inputs, held, strict=True)]
    if ERR in held:
        rejected = [f"{_left(exit)}/err" for exit in held]
        inputs += rejected
        selects += [PlannedSelect(back, ERR) for back in rejected]
    return replace(
        pipeline,
        inputs=(*pipeline.inputs, *inputs),
        outputs=(*pipeline.outputs, *map(_left, held)),
        selects=tuple(selects),
        domain=domain,
    )
