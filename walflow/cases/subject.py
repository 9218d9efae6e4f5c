"""What a case is about -> an Assembly with ends of the test's.

A pipeline stands alone: each of its inputs and outputs is linked to an end of the port's name. Of a flow all is
checked as `walflow check` does, and then its connectors are taken for ends of their own names: nothing is opened,
nothing sent. A log is passed through. What no link takes from a pipeline's `err` comes to the end `err`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from walflow.cases.folder import SETTINGS, BadCase, Case
from walflow.compile.nodes import Expr
from walflow.diagnostics import Diagnostic, Source, Span
from walflow.framing import LENGTH_PREFIXED, Outgoing
from walflow.lang.config import NodeId, PipelineConfig
from walflow.lang.files import read
from walflow.lang.standalone import literal
from walflow.plan import load
from walflow.plan.alone import EXIT, ExitEnd, load_query, load_script, saying_where_args_come_from
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link


@dataclass(frozen=True)
class Subject:
    """`entries` and `exits`: the ends, by the names that files of the case have; several connectors may share one.
    `pipeline`: as it was read, None for a flow."""

    assembly: Assembly
    entries: Mapping[str, NodeId]
    exits: Mapping[NodeId, str]
    passes: frozenset[NodeId] = frozenset()
    ordered: bool = True  # what leaves by one port does not depend on how the input is cut
    pipeline: PipelineConfig | None = None


class LoadedSubject(NamedTuple):
    """`subject` is None where there are errors. `said`: in the words of `walflow check`, files by their names below
    the case."""

    subject: Subject | None
    errors: Sequence[str]
    warnings: Sequence[str]
    hints: Mapping[str, str]  # by what is said


def read_subject(case: Case) -> LoadedSubject:
    match case.subject:
        case "pipeline.trickle" | "script.tremor":
            subject, found = _pipeline(case)
        case "flow.troy":
            subject, found = _flow(case)
    errors = [_line(one, case.folder) for one in found if one.severity == "error"]
    warnings = [_line(one, case.folder) for one in found if one.severity == "warning"]
    hints = {_line(one, case.folder): one.hint for one in found if one.hint}
    return LoadedSubject(None if errors else subject, errors, warnings, hints)


def _line(diagnostic: Diagnostic, folder: Path) -> str:
    return str(diagnostic).replace(f"{folder}/", "")


def _pipeline(case: Case) -> tuple[Subject | None, Sequence[Diagnostic]]:
    source = read(case.folder / case.subject, 0)
    if isinstance(source, Diagnostic):
        return None, [source]
    load_alone = load_script if case.subject == "script.tremor" else load_query
    alone, found = load_alone(source, dict(_args(case)))
    found = saying_where_args_come_from(
        found, f"give it a value in {case.folder / SETTINGS}: `[args]`, then `NAME = …`"
    )
    if alone is None:
        return None, found
    return Subject(alone.assembly, alone.entries, alone.exits, alone.logs, pipeline=alone.config), found


def _args(case: Case) -> Iterator[tuple[str, Expr]]:
    for name, value in case.settings.args.items():
        written = literal(value, Span(Source(SETTINGS, name), 0, len(name)))
        if written is None:
            kind = type(value).__name__
            raise BadCase(f"{case.folder / SETTINGS}: `args.{name}`: a {kind} is no value of a flow")
        yield name, written


def _flow(case: Case) -> tuple[Subject | None, Sequence[Diagnostic]]:
    if case.settings.args:
        raise BadCase(f"{case.folder / SETTINGS}: a flow has its args behind `deploy`, take `args` out")
    assembly, found = load([case.folder / "flow.troy"])
    return None if assembly is None else _with_ends(assembly, case), found


def _with_ends(assembly: Assembly, case: Case) -> Subject:
    nodes = [*(plan.id for plan in assembly.connectors), *(plan.id for plan in assembly.pipelines)]
    several = len({node.flow for node in nodes}) > 1
    reads = {link.source for link in assembly.links if link.source_port != ERR}
    writes = {link.target for link in assembly.links}
    entries: dict[str, NodeId] = {}
    exits: dict[NodeId, str] = {}
    passes: set[NodeId] = set()
    for plan in assembly.connectors:
        name = f"{plan.id.flow}.{plan.id.name}" if several else plan.id.name
        if plan.connector.traits.forwards:
            if not plan.connector.traits.passes:
                raise BadCase(f"{case.folder}: connector `{plan.id}`: walflow test does not run {plan.kind}")
            passes.add(plan.id)
            continue
        if plan.id in reads:
            entries[name] = plan.id
        if plan.id in writes:
            exits[plan.id] = name
    if len(entries) == 1:
        entries["in"] = next(iter(entries.values()))
    connectors = [_taking_events(plan) for plan in assembly.connectors]
    links = list(assembly.links)
    linked = {(link.source, link.source_port) for link in links}
    lost = NodeId("", "connector", ERR)
    reporting = [
        *(plan.id for plan in assembly.pipelines if ERR in plan.outputs),
        *(plan.id for plan in assembly.connectors if ERR in plan.connector.ports_used().outputs),
    ]
    links += [Link(node, ERR, lost, "in") for node in reporting if (node, ERR) not in linked]
    connectors.append(ConnectorPlan(lost, EXIT, ExitEnd(), None, None, None))
    exits[lost] = ERR
    return Subject(
        Assembly(tuple(connectors), assembly.pipelines, tuple(links)), entries, exits, frozenset(passes), False
    )


def _taking_events(plan: ConnectorPlan) -> ConnectorPlan:
    """The codec has its say of what is written, the bytes around it are not looked at."""
    return plan if plan.codec is None else replace(plan, postframing=Outgoing((), LENGTH_PREFIXED))
