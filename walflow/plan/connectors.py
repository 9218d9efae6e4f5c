"""A connector that a flow file declares -> its plan, or diagnostics."""

from functools import partial

from walflow.compile.constant import Constant
from walflow.contract import Connector
from walflow.diagnostics import Diagnostic, Report, Span, did_you_mean, error, one_of
from walflow.errors import WalflowError
from walflow.lang.config import ConnectorConfig
from walflow.plan.assembly import ConnectorPlan
from walflow.plan.links import GraphNode
from walflow.plan.settings import check_keys, config_of, wire
from walflow.plan.validate import configure
from walflow.plugins import NotLoadable
from walflow.registry import Registry, find
from walflow.substitutes import substitute


def plan_connector(
    config: ConnectorConfig, registry: Registry, report: Report
) -> tuple[ConnectorPlan | None, GraphNode]:
    """The plan is None if there is an error. Links are checked against its ports in both cases, as far as the ports
    are known."""
    if config.defined.source is not config.created.source:
        report = partial(_with_creation, report, config.created)
    unknown = GraphNode(None, False, config.created)
    kind = config.type.text
    try:
        of = find(kind, registry)
    except NotLoadable as refused:
        report(error(str(refused), config.type.span))
        return None, unknown
    if of is None:
        hint = (
            substitute("connector", kind)
            or did_you_mean(kind, registry, cutoff=0.8)
            or f"there are {one_of(sorted(registry)).replace(' or ', ' and ')}"
        )
        # tremor's own words, which programs search for
        report(error(f"Unknown connector type {kind}", config.type.span, hint))
        return None, unknown
    check_keys(config, of, report)
    framed = wire(config, of, report)
    constant = config_of(config, of)
    connector = _configured(config, of, constant, report)
    if connector is not None:
        if (
            not of.traits.transactional
            and connector.resends()
            and framed.preframing
            and not framed.preframing.resumable
        ):
            report(_not_resumable(config))
        if connector.sink_codec(framed.codec) is None and framed.codec and "postprocessors" in config.settings:
            hint = "take them out: a body is an event, or several with nothing between them"
            message = "`postprocessors` want one codec, and here the media type decides"
            report(error(message, config.settings["postprocessors"].key, hint))
        written = {key: part.constant.span for key, part in constant.parts.items()} if constant else {}
        plan = ConnectorPlan(config.id, kind, connector, *framed, config.defined, written)
        gives_up = written.get("max_attempts") if getattr(connector, "max_attempts", None) is not None else None
        return plan, GraphNode(
            connector.ports_used(),
            of.traits.forwards,
            config.created,
            of.traits.output_optional,
            gives_up,
            connector.how_to_use,
        )
    if of.ports_used is not Connector.ports_used:  # its configuration decides which of its ports it uses
        return None, unknown
    return None, GraphNode(of.ports, of.traits.forwards, config.created, of.traits.output_optional)


def _not_resumable(config: ConnectorConfig) -> Diagnostic:
    chain = config.settings.get("preprocessors")
    message = (
        "a restart reads on in the middle of a file, so each event must be there as it is, and end where a line ends"
    )
    hint = (
        'write `preprocessors = ["separate"]` for an event of one line, `["multiline"]` for one of several, '
        "and decode in the pipeline"
    )
    return error(message, chain.key if chain else config.defined, hint)


def _with_creation(report: Report, created: Span, diagnostic: Diagnostic) -> None:
    """If the error is in a module's definition, the place where the flow creates it is named too. That is the file
    that the user edits."""
    hint = f"{diagnostic.hint}; created at {created}" if diagnostic.hint else f"created at {created}"
    report(diagnostic._replace(hint=hint))


def _configured(
    config: ConnectorConfig, of: type[Connector], constant: Constant | None, report: Report
) -> Connector | None:
    if "config" not in config.settings and not config.complete:
        return None
    kind = config.type.text
    try:
        connector, found = configure(kind, of, constant, config.defined)
    except WalflowError as refused:
        connector, found = None, [error(str(refused), constant.span if constant else config.defined)]
    except Exception as failed:  # noqa: BLE001 - a stranger's validator may raise anything; the line names it
        message = f"connector type {kind} cannot check its config: {type(failed).__name__}: {failed}"
        connector, found = None, [error(message, config.type.span)]
    for diagnostic in found:
        report(diagnostic)
    return connector
