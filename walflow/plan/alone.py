"""A pipeline or a script that is a file of its own -> an Assembly with ends of the caller's.

Each of its inputs and outputs is linked to an end of the port's name, so that the caller gives events to the entries
and takes them at the exits: a test case its input, `walflow run` a file.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, cast

from msgspec.structs import replace

from walflow.compile.nodes import Expr, Name
from walflow.contract import CodecUse, Connector, Ports, Traits
from walflow.diagnostics import Diagnostic, Report, Source, Span, did_you_mean, error, has_errors, in_order, one_of
from walflow.lang.ast import Arg, DefinePipeline, Setting
from walflow.lang.config import ConnectorConfig, Flow, FlowConfig, LinkConfig, LinkEnd, NodeId, PipelineConfig
from walflow.lang.deploy import pipeline
from walflow.lang.modules import Library, ModuleBlock
from walflow.lang.parser import parse_query, parse_script
from walflow.lang.standalone import definitions
from walflow.plan.assemble import assemble
from walflow.plan.assembly import Assembly
from walflow.registry import connectors

FLOW: Final = "test"
PIPELINE: Final = "pipeline"


class EntryEnd(Connector):
    """As a log gives them: in order, each at its position."""

    ports: ClassVar[Ports] = Ports((), ("out",))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, positions=True)


class ExitEnd(Connector):
    ports: ClassVar[Ports] = Ports(("in",), ())
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)


ENTRY: Final = "entry"
EXIT: Final = "left"  # no name of a registered type
_ENDS: Final[Mapping[str, type[Connector]]] = {ENTRY: EntryEnd, EXIT: ExitEnd}


@cache
def _registry() -> Mapping[str, type[Connector]]:
    """With what an operator may stand for."""
    # loaded one by one, as they are named
    return ChainMap(dict(_ENDS), cast(MutableMapping[str, type[Connector]], connectors()))


@dataclass(frozen=True)
class Alone:
    """`entries` and `exits`: the ends, by the names of the ports. `logs`: operators that are run as connectors.
    `config`: the pipeline, as it was read."""

    assembly: Assembly
    entries: Mapping[str, NodeId]
    exits: Mapping[NodeId, str]
    logs: frozenset[NodeId]
    config: PipelineConfig


Loaded = tuple[Alone | None, Sequence[Diagnostic]]


def load_query(source: Source, args: Mapping[str, Expr], flow: str = FLOW, name: str = PIPELINE) -> Loaded:
    """A file of selects. `args` are as if it declared them."""
    found: list[Diagnostic] = []
    definition = replace(parse_query(source, name, found.append), args=tuple(_declared(args)))
    return _load(_configured(source, definition, (), flow, found.append), found)


def load_script(source: Source, args: Mapping[str, Expr], flow: str = FLOW, name: str = PIPELINE) -> Loaded:
    """A file of what stands between `script` and `end`."""
    found: list[Diagnostic] = []
    definition = parse_script(source, name, tuple(_declared(args)), found.append)
    return _load(_configured(source, definition, (), flow, found.append), found)


def load_definition_of_script(source: Source, definition: DefinePipeline, flow: str = FLOW) -> Loaded:
    """A script as it was read, perhaps with another body."""
    found: list[Diagnostic] = []
    return _load(_configured(source, definition, (), flow, found.append), found)


def load_definition(source: Source, wanted: str | None, args: Mapping[str, Expr], flow: str) -> Loaded:
    """The pipeline `wanted`, or the only one, that a flow file or a module defines at its top or in a flow."""
    found: list[Diagnostic] = []
    library = Library(Path(source.name).parent, found.append)
    file = library.file(source)
    found_definitions = dict(definitions(file, library))
    chosen = _chosen(found_definitions, wanted, source, found.append) if file.whole else None
    if chosen is None:
        return None, in_order(found)
    definition, home = chosen
    settings = tuple(Setting(Name(name, value.span), value) for name, value in args.items())
    name = definition.name
    config = pipeline(Name(flow, name.span), definition, name, library, found.append, settings, home)
    return _load(config, found)


def _chosen(
    known: Mapping[str, tuple[DefinePipeline, ModuleBlock]], wanted: str | None, source: Source, report: Report
) -> tuple[DefinePipeline, ModuleBlock] | None:
    of_that_name = [name for name in known if wanted in (None, name, name.rpartition("::")[2])]
    if wanted is not None and wanted in known:
        return known[wanted]
    if len(of_that_name) == 1:
        return known[of_that_name[0]]
    if not known:
        report(error(f"{source.name} defines no pipeline"))
    elif of_that_name:
        hint = f"choose one of them by `--pipeline`: {one_of(of_that_name)}"
        report(error(f"{source.name} defines {len(of_that_name)} pipelines", hint=hint))
    else:
        near = did_you_mean(wanted or "", known) or f"there is {one_of(known)}"
        report(error(f"{source.name} defines no pipeline `{wanted}`", hint=near))
    return None


def _configured(
    source: Source, definition: DefinePipeline, settings: tuple[Setting, ...], flow: str, report: Report
) -> PipelineConfig:
    library = Library(Path(source.name).parent, report)
    name = definition.name
    return pipeline(Name(flow, name.span), definition, name, library, report, settings)


def _load(config: PipelineConfig, found: list[Diagnostic]) -> Loaded:
    span, flow_name = config.created, config.id.flow
    inputs = [name.text for name in config.inputs] if config.inputs is not None else ["in"]
    written = config.outputs if config.outputs is not None else (Name("out", span), Name("err", span))
    outputs = list(dict.fromkeys(name.text for name in written))
    config = replace(config, outputs=tuple(Name(port, span) for port in outputs))
    entries = {port: NodeId(flow_name, "connector", port) for port in inputs}
    exits = {NodeId(flow_name, "connector", f"{port}/exit"): port for port in outputs}
    flow = Flow(
        flow_name,
        (
            *(_end(node, ENTRY, span) for node in entries.values()),
            *(_end(node, EXIT, span) for node in exits),
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
    if assembly is None or has_errors(found):
        return None, found
    logs = frozenset(plan.id for plan in assembly.connectors if plan.kind not in _ENDS)
    return Alone(assembly, entries, exits, logs, config), found


def _end(node: NodeId, kind: str, span: Span) -> ConnectorConfig:
    return ConnectorConfig(node, Name(kind, span), {}, True, span, span)


def _link(source: NodeId, source_port: str, target: NodeId, target_port: str, span: Span) -> LinkConfig:
    ends = LinkEnd(source, Name(source_port, span), span), LinkEnd(target, Name(target_port, span), span)
    return LinkConfig(*ends, span)


# ---- args


def saying_where_args_come_from(found: Sequence[Diagnostic], where: str) -> list[Diagnostic]:
    """`found`, of a file that stands alone: its args are declared by no definition. `where`: the hint for one that
    has no value, with NAME for its name."""
    return [
        one._replace(hint=where.replace("NAME", one.message.split("`")[1])) if _lacks_arg(one) else one
        for one in found
    ]


def _lacks_arg(one: Diagnostic) -> bool:
    return one.message.startswith("unknown arg `") and not (one.hint or "").startswith("did you mean")


def _declared(args: Mapping[str, Expr]) -> Iterator[Arg]:
    """As if the definition declared them, each with its value as the default."""
    for name, value in args.items():
        yield Arg(Name(name, value.span), value)
