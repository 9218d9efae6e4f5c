"""A pipeline within a pipeline becomes places of the one around it.

Its `in` is the place of its name there, and everything else of it lies at `NAME/…`: its other ports, its streams, its
scripts and operators. Its ports are streams, so a region of compiled selects goes on through them, and ends at
operators alone. What a part of it rejects goes to its `err` if a select is from there, otherwise to that of the
pipeline around it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from walflow.compile.region import input_place
from walflow.plan.assembly import ERR, PipelinePlan, PlannedSelect


def inline(outer: PipelinePlan, nested: Mapping[str, PipelinePlan]) -> PipelinePlan:
    """`outer` is as written: its selects are from and into places of what lies in it."""
    sources = {select.source for select in outer.selects}
    for name, inner in nested.items():
        outer = _with(outer, name, inner, reports=f"{name}/{ERR}" in sources)
    return outer


def _with(outer: PipelinePlan, name: str, inner: PipelinePlan, *, reports: bool) -> PipelinePlan:
    def moved(place: str) -> str:
        return input_place(name, place) if place in inner.inputs else f"{name}/{place}"

    errs = {moved(place): moved(err) for place, err in inner.errs.items()}
    if reports:
        failing = [*(select.source for select in inner.selects if not select.plain), *inner.through]
        errs |= {place: f"{name}/{ERR}" for place in map(moved, failing) if place not in errs}
    return replace(
        outer,
        selects=(
            *outer.selects,
            *(_moved(select, moved(select.source), moved(select.target)) for select in inner.selects),
        ),
        streams=(*outer.streams, *map(moved, (*inner.inputs, *inner.outputs, *inner.streams))),
        operators=(*outer.operators, *(replace(one, name=moved(one.name)) for one in inner.operators)),
        scripts=(*outer.scripts, *(one._replace(name=moved(one.name)) for one in inner.scripts)),
        errs={**outer.errs, **errs},
    )


def _moved(select: PlannedSelect, source: str, target: str) -> PlannedSelect:
    return select._replace(source=source, target=target)


def ways(name: str, inner: PipelinePlan) -> Mapping[str, Sequence[str]]:
    """Which of its outputs each input leads to, as places of the pipeline around it."""
    after: dict[str, list[str]] = defaultdict(list)
    for place in inner.places:
        after[place] += filter(None, [inner.err_from(place)])
    for select in inner.selects:
        after[select.source].append(select.target)
    for node, exits in inner.through.items():
        after[node] += exits
    found: dict[str, Sequence[str]] = {}
    for port in inner.inputs:
        reached = {port: None}
        waiting = [port]
        while waiting:
            fresh = [place for place in after.get(waiting.pop(), ()) if place not in reached]
            reached |= dict.fromkeys(fresh)
            waiting += fresh
        found[input_place(name, port)] = [f"{name}/{place}" for place in inner.outputs if place in reached]
    return found
