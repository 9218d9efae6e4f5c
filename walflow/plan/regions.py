"""Which selects and scripts of a pipeline are compiled together: those that are linked directly or by streams, in
pipelines within it too. An operator ends a region."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from walflow.compile.compiled import Compiled
from walflow.compile.compiler import compile_region
from walflow.compile.program import Term
from walflow.compile.region import Region, Rule
from walflow.compile.resolve import Expression

if TYPE_CHECKING:
    from walflow.plan.assembly import PipelinePlan, PlannedSelect


class RegionTable:
    """The regions of a pipeline by their entry, for each host that it runs on.
    Each is found once, and compiled once."""

    def __init__(self, plan: "PipelinePlan") -> None:
        self._plan = plan
        self._regions: dict[str, Region] = {}
        self._compiled: dict[str, Compiled] = {}

    def __repr__(self) -> str:
        return f"<RegionTable of {self._plan.id}, {len(self._compiled)} compiled>"

    def __getitem__(self, entry: str) -> Region:
        if entry not in self._regions:
            self._regions[entry] = _region_of(self._plan, entry)
        return self._regions[entry]

    def compiled(self, entry: str) -> Compiled:
        if entry not in self._compiled:
            self._compiled[entry] = compile_region(self[entry])
        return self._compiled[entry]

    def __iter__(self) -> Iterator[Region]:
        """Those that do something to an event. Each has the places at which events come to it from outside."""
        return map(self.__getitem__, _entries(self._plan))


def _region_of(plan: "PipelinePlan", entry: str) -> Region:
    scripts = {place: script for one in plan.scripts for place, script in one.places.items()}
    found = _places(plan, entry)
    places = {name: [_rule(select) for select in plan.selects_from(name)] for name in found if name not in scripts}
    errs = {name: plan.errs[name] for name in found if name in plan.errs}
    its_scripts = {name: scripts[name] for name in found if name in scripts}
    return Region(f"{plan.id}/{entry}", entry, places, its_scripts, errs)


def _entries(plan: "PipelinePlan") -> Iterator[str]:
    exits = [exit for operator in plan.operators for exit in operator.exits]
    errors = dict.fromkeys(plan.errs[operator.name] for operator in plan.operators if operator.name in plan.errs)
    waiting = [*plan.inputs, *exits, *errors]
    seen = set(waiting)
    streams = set(plan.streams)
    for entry in waiting:
        selects = plan.selects_from(entry)
        if not selects:
            continue
        if is_plain(plan, selects):
            fresh = [to for to in dict.fromkeys(one.target for one in selects) if to in streams and to not in seen]
            seen.update(fresh)
            waiting += fresh
        else:
            yield entry


def is_plain(plan: "PipelinePlan", selects: "Sequence[PlannedSelect]") -> bool:
    """Whether there is nothing to compile: all events pass unchanged,
    and no two ways meet again within the pipeline."""
    if any(select.target in _scripts(plan) for select in selects):
        return False
    return all(select.plain for select in selects) and not _rejoins(plan, selects)


def _scripts(plan: "PipelinePlan") -> Mapping[str, Sequence[str]]:
    return {place: one.exits for one in plan.scripts for place in one.places}


def _rejoins(plan: "PipelinePlan", selects: "Sequence[PlannedSelect]") -> bool:
    if (
        len(selects) == 1
    ):  # where pipelines lie within pipelines this is nearly each place: their reach is not looked up
        return False
    seen: set[str] = set()
    for select in selects:
        reached = {select.target}
        if select.target in plan.streams:
            reached |= {one.target for name in _places(plan, select.target) for one in plan.selects_from(name)}
        if reached & seen:
            return True
        seen |= reached
    return False


def _places(plan: "PipelinePlan", entry: str) -> list[str]:
    scripts = _scripts(plan)
    within = {*plan.streams, *scripts}
    found = {entry: None}
    waiting = [entry]
    for name in waiting:
        onward = [*scripts.get(name, ()), *(one.target for one in plan.selects_from(name) if one.target in within)]
        onward += [plan.errs[name]] if name in plan.errs else []
        fresh = [to for to in dict.fromkeys(onward) if to not in found]
        found |= dict.fromkeys(fresh)
        waiting += fresh
    return list(found)


def _rule(select: "PlannedSelect") -> Rule:
    what, where, having = map(_term, (select.what, select.where, select.having))
    return Rule(what, where, having, select.target, select.span, select.windows)


def _term(expression: Expression | None) -> Term | None:
    return None if expression is None else expression.term
