"""What a case is about -> an Assembly with ends of the test's.

A pipeline stands alone: each of its inputs and outputs is linked to an end of the port's name. Of a flow all is checked as
`walflow check` does, and then its connectors are taken for ends of their own names: nothing is opened, nothing sent. A
log is passed through. What no link takes from a pipeline's `err` comes to the end `err`.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, cast

from walflow.cases.folder import BadCase, Case
from walflow.compile.nodes import Array, Expr, Field, Literal, Name, RecordNode, Text
from walflow.contract import CodecUse, Connector, Ports
from walflow.diagnostics import Diagnostic, Source, Span, has_errors, in_order
from walflow.framing import LENGTH_PREFIXED, Outgoing
from walflow.lang.ast import Arg
from walflow.lang.config import ConnectorConfig, Flow, FlowConfig, LinkConfig, LinkEnd, NodeId
from walflow.lang.deploy import pipeline
from walflow.lang.files import read
from walflow.lang.modules import Library
from walflow.lang.parser import parse_query, parse_script
from walflow.plan import load
from walflow.plan.assemble import assemble
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link
from walflow.registry import connectors

FLOW: Final = "test"
PIPELINE: Final = "pipeline"
PASSED_THROUGH: Final = {"wal", "memory"}


class _Entry(Connector):
    """As a log gives them: in order, each at its position."""

    ports: ClassVar[Ports] = Ports((), ("out",))
    codec: ClassVar[CodecUse] = CodecUse.FORBIDDEN
    positions: ClassVar[bool] = True


class _Exit(Connector):
    ports: ClassVar[Ports] = Ports(("in",), ())
    codec: ClassVar[CodecUse] = CodecUse.FORBIDDEN


_ENDS: Final[Mapping[str, type[Connector]]] = {"entry": _Entry, "exit": _Exit}


@cache
def _registry() -> Mapping[str, type[Connector]]:
    """With what an operator may stand for."""
    # loaded one by one, as they are named
    return ChainMap(dict(_ENDS), cast(MutableMapping[str, type[Connector]], connectors()))


@dataclass(frozen=True)
class Subject:
    """`entries` and `exits`: the ends, by the names that files of the case have; several connectors may share one."""

    assembly: Assembly
    entries: Mapping[str, NodeId]
    exits: Mapping[NodeId, str]
    passes: frozenset[NodeId] = frozenset()
    ordered: bool = True  # what leaves by one port does not depend on how the input is cut


class LoadedSubject(NamedTuple):
    """`subject` is None where there are errors. `said`: in the words of `walflow check`, files by their names below the
    case."""

    subject: Subject | None
    errors: Sequence[str]
    warnings: Sequence[str]


def read_subject(case: Case) -> LoadedSubject:
    match case.subject:
        case "pipeline.trickle" | "script.tremor":
            subject, found = _pipeline(case)
        case "flow.troy":
            subject, found = _flow(case)
    errors = [_line(one, case.folder) for one in found if one.severity == "error"]
    warnings = [_line(one, case.folder) for one in found if one.severity == "warning"]
    return LoadedSubject(None if errors else subject, errors, warnings)


def _line(diagnostic: Diagnostic, folder: Path) -> str:
    return str(diagnostic).replace(f"{folder}/", "")


def _pipeline(case: Case) -> tuple[Subject | None, Sequence[Diagnostic]]:
    found: list[Diagnostic] = []
    source = read(case.folder / case.subject, 0)
    if isinstance(source, Diagnostic):
        return None, [source]
    if case.subject == "script.tremor":
        definition = parse_script(source, PIPELINE, tuple(_args(case)), found.append)
    else:
        definition = replace(parse_query(source, PIPELINE, found.append), args=tuple(_args(case)))
    whole, span = definition.name, definition.name.span
    config = pipeline(Name(FLOW, span), definition, whole, Library(case.folder, found.append), found.append)
    inputs = [name.text for name in config.inputs] if config.inputs is not None else ["in"]
    outputs = list(dict.fromkeys(name.text for name in config.outputs or ()))
    config = replace(config, outputs=tuple(Name(port, span) for port in outputs))
    entries = {port: NodeId(FLOW, "connector", port) for port in inputs}
    exits = {NodeId(FLOW, "connector", f"{port}/exit"): port for port in outputs}
    flow = Flow(
        FLOW,
        (
            *(_end(node, "entry", span) for node in entries.values()),
            *(_end(node, "exit", span) for node in exits),
        ),
        (config,),
        (
            *(_link(node, "out", config.id, port, span) for port, node in entries.items()),
            *(_link(config.id, port, node, "in", span) for node, port in exits.items()),
        ),
        config.whole,
        span,
    )  # fmt: skip
    assembly, more = assemble(FlowConfig((flow,), not has_errors(found)), _registry())
    found = in_order([*found, *more])
    if assembly is None:
        return None, found
    passes = frozenset(plan.id for plan in assembly.connectors if plan.kind not in _ENDS)
    return Subject(assembly, entries, exits, passes), found


def _end(node: NodeId, kind: str, span: Span) -> ConnectorConfig:
    return ConnectorConfig(node, Name(kind, span), {}, True, span, span)


def _link(source: NodeId, source_port: str, target: NodeId, target_port: str, span: Span) -> LinkConfig:
    ends = LinkEnd(source, Name(source_port, span), span), LinkEnd(target, Name(target_port, span), span)
    return LinkConfig(*ends, span)


def _args(case: Case) -> Iterator[Arg]:
    """As if the definition declared them, each with its value as the default."""
    for name, value in case.settings.args.items():
        span = Span(Source("case.toml", name), 0, len(name))
        yield Arg(Name(name, span), _written(case, name, value, span))


def _written(case: Case, name: str, value: object, span: Span) -> Expr:
    match value:
        case bool() | int() | float():
            return Literal(value, span)
        case str():
            return Text((value,), span)
        case list():
            items = cast("list[object]", value)
            return Array(tuple(_written(case, name, item, span) for item in items), span)
        case dict():
            members = cast("dict[str, object]", value)
            return RecordNode(
                tuple(Field(Text((key,), span), _written(case, name, one, span)) for key, one in members.items()),
                span,
            )
        case _:
            raise BadCase(
                f"{case.folder / 'case.toml'}: `args.{name}`: a {type(value).__name__} is no value of a flow"
            )


def _flow(case: Case) -> tuple[Subject | None, Sequence[Diagnostic]]:
    if case.settings.args:
        raise BadCase(f"{case.folder / 'case.toml'}: a flow has its args behind `deploy`, take `args` out")
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
        if plan.connector.forwards:
            if plan.kind not in PASSED_THROUGH:
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
    connectors.append(ConnectorPlan(lost, "exit", _Exit(), None, None, None))
    exits[lost] = ERR
    return Subject(
        Assembly(tuple(connectors), assembly.pipelines, tuple(links)), entries, exits, frozenset(passes), False
    )


def _taking_events(plan: ConnectorPlan) -> ConnectorPlan:
    """The codec has its say of what is written, the bytes around it are not looked at."""
    return plan if plan.codec is None else replace(plan, postframing=Outgoing((), LENGTH_PREFIXED))
