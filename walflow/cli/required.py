"""`walflow check --require`: whether each path promises as much as is asked for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walflow.cli.levels import PromiseLevel
from walflow.cli.promises import PathPromises, Promise, chain
from walflow.diagnostics import Diagnostic, error
from walflow.plan import Assembly, NodeId


class Requirement(NamedTuple):
    """`sink`: what is asked of the paths to it alone."""

    text: str
    level: PromiseLevel
    sink: NodeId | None

    @classmethod
    def of(cls, text: str) -> "Requirement":
        """`once`, or `once=FLOW/SINK`. Raises ValueError."""
        name, named, place = text.partition("=")
        known = {level.value: level for level in PromiseLevel}
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
        flow, slash, sink = place.partition("/")
        if named and not (flow and slash and sink):
            raise ValueError(f"{place!r} is not FLOW/SINK")
        return cls(text, known[name], NodeId(flow, "connector", sink) if named else None)


class JudgedRequirement(NamedTuple):
    requirement: Requirement
    holds: bool
    findings: Sequence[Diagnostic]


def judge(requirement: Requirement, promised: PathPromises, assembly: Assembly) -> JudgedRequirement:
    findings = [*_findings(requirement, promised, assembly)]
    return JudgedRequirement(requirement, not findings, findings)


def _findings(requirement: Requirement, promised: PathPromises, assembly: Assembly) -> Iterator[Diagnostic]:
    asked = f"--require {requirement.text}"
    paths = [*_asked(requirement, promised.paths)]
    if not paths:
        sinks = sorted({f"{one.path.sink.flow}/{one.path.sink.name}" for one in promised.paths})
        yield error(
            f"{asked}: no path leads {'there' if requirement.sink else 'to a sink'}",
            hint=f"sinks are {', '.join(sinks)}" if sinks else None,
        )
    if promised.more:
        yield error(f"{asked}: there are more than {len(promised.paths)} paths, and the others were not looked at")
    places = {plan.id: plan.defined for plan in assembly.connectors}
    for one in paths:
        if reasons := one.short_of[requirement.level]:
            yield error(
                f"{asked}: `{one.path.source.flow}: {chain(one.path)}` promises less",
                places.get(one.path.sink),
                "\n".join(reasons),
            )


def _asked(requirement: Requirement, promised: Sequence[Promise]) -> Iterator[Promise]:
    """With a sink: the paths to it, and, unless only what a log sends is asked about, those into the logs before."""
    if requirement.sink is None:
        yield from promised
        return
    forwarding = {one.path.sink for one in promised if one.ends_in and requirement.level is not PromiseLevel.ONCE}
    waiting, seen = [requirement.sink], {requirement.sink}
    while waiting:
        sink = waiting.pop()
        for one in promised:
            if one.path.sink != sink:
                continue
            yield one
            if one.path.source in forwarding - seen:
                seen.add(one.path.source)
                waiting.append(one.path.source)


def required_document(judged: Sequence[JudgedRequirement]) -> list[dict[str, object]]:
    return [{"requirement": one.requirement.text, "holds": one.holds} for one in judged]
