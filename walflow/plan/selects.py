"""Checks the selects of a pipeline."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import groupby, pairwise

from walflow.compile.nodes import Name
from walflow.compile.region import input_place, node_of
from walflow.contract import Ports
from walflow.diagnostics import Diagnostic, Report, did_you_mean, error, one_of
from walflow.lang.config import PipelineConfig, SelectConfig
from walflow.plan.assembly import ERR, PipelinePlan
from walflow.plan.inline import ways
from walflow.warnings import warning
from walflow.warnings.unlinked import UNLINKED
from walflow.warnings.unused import UNUSED

# with scripts and pipelines; None if it has an error, which was reported already
Operators = Mapping[str, Ports | None]
Nested = Mapping[str, PipelinePlan]

STREAM = Ports(("in",), ("out",))


def place(name: Name, port: Name | None, default: str, operators: Operators) -> str:
    """The source or the target of a select, in the words of `PlannedSelect`."""
    if name.text not in operators:
        return name.text
    if default == "in":
        return input_place(name.text, port.text if port else "in")
    return f"{name.text}/{port.text if port else default}"


def check_selects(
    pipeline: PipelineConfig,
    inputs: Sequence[str],
    outputs: Sequence[str],
    operators: Operators,
    nested: Nested,
    report: Report,
) -> None:
    if not pipeline.whole:
        return
    found: list[Diagnostic] = []
    within = _Within(pipeline, operators, found.append)
    for select in pipeline.selects:
        within.check_source(select, inputs)
        within.check_target(select, outputs)
    _check_names(pipeline, {*inputs, *outputs}, found.append)
    _check_circles(pipeline, operators, nested, found.append)
    if not found:
        _warn_of_loose_ends(pipeline, operators, nested, found.append)
    for what, name in pipeline.uncreated:
        hint = f"so it is not checked; create it: `create {what} {name.text};`"
        found.append(warning(UNUSED, f"{what} `{name.text}` is defined, never created", name.span, hint))
    for diagnostic in found:
        report(diagnostic)


class _Within:
    def __init__(self, pipeline: PipelineConfig, operators: Operators, report: Report) -> None:
        self._operators = operators
        self._nodes = [*(name.text for name in pipeline.streams), *operators]
        self._uncreated = {name.text: what for what, name in pipeline.uncreated}
        self._scripts = {script.name.text for script in pipeline.scripts}
        self._pipelines = {one.name.text for one in pipeline.pipelines}
        self._report = report

    def check_source(self, select: SelectConfig, inputs: Sequence[str]) -> None:
        if self._is_known(select.source, inputs, "input", "from"):
            ports = self._operators.get(select.source.text, STREAM)
            if ports is not None:
                self._check_port(select.source, select.source_port, "out", ports.outputs, "output")

    def check_target(self, select: SelectConfig, outputs: Sequence[str]) -> None:
        if self._is_known(select.target, outputs, "output", "into"):
            ports = self._operators.get(select.target.text, STREAM)
            if ports is not None:
                self._check_port(select.target, select.target_port, "in", ports.inputs, "input")

    def _is_known(self, name: Name, ports: Sequence[str], direction: str, word: str) -> bool:
        if name.text in ports or name.text in self._nodes:
            return True
        if name.text in self._uncreated:
            what = self._uncreated[name.text]
            hint = f"add `create {what} {name.text};`"
            self._report(error(f"{what} `{name.text}` is defined, not created", name.span, hint))
            return False
        near = did_you_mean(name.text, [*ports, *self._nodes, *self._uncreated])
        add = f"add it: `{word} {', '.join([*ports, name.text])}`"
        self._report(error(f"this pipeline has no {direction} `{name.text}`", name.span, near or add))
        return False

    def _check_port(self, node: Name, port: Name | None, default: str, ports: Sequence[str], direction: str) -> None:
        text = port.text if port else default
        if node.text not in self._operators:
            if text not in {"in", "out"}:
                self._report(error(f"`{node.text}` has no port `{text}`", port.span if port else node.span))
            return
        if text in ports:
            return
        its = f"its {direction}{'s are' if len(ports) > 1 else ' is'} {one_of(ports).replace(' or ', ' and ')}"
        hint = (did_you_mean(text, ports) if port else None) or its
        what = "script" if node.text in self._scripts else "pipeline" if node.text in self._pipelines else "operator"
        span = port.span if port else node.span
        self._report(error(f"{what} `{node.text}` has no {direction} `{text}`", span, hint))


def _check_names(pipeline: PipelineConfig, ports: set[str], report: Report) -> None:
    first: dict[str, Name] = {}
    for what, name in _created(pipeline):
        if name.text in ports:
            report(
                error(f"`{name.text}` is a port of this pipeline already", name.span, f"name the {what} otherwise")
            )
        if name.text in first:
            hint = f"first at {first[name.text].span}"
            report(error(f"{what} `{name.text}` is created twice", name.span, hint))
        if "/" in name.text:
            report(
                error(f"`{name.text}`: what stands behind a `/` is a port", name.span, f"name the {what} otherwise")
            )
        first.setdefault(name.text, name)


def _created(pipeline: PipelineConfig) -> Iterator[tuple[str, Name]]:
    yield from (("stream", name) for name in pipeline.streams)
    yield from (("operator", operator.name) for operator in pipeline.operators)
    yield from (("script", script.name) for script in pipeline.scripts)
    yield from (("pipeline", one.name) for one in pipeline.pipelines)


def _check_circles(pipeline: PipelineConfig, operators: Operators, nested: Nested, report: Report) -> None:
    """Selects and operators call each other, as pipelines do, so a circle would never end. Each way through a
    pipeline within this one counts for itself."""
    nodes = {name.text for _, name in _created(pipeline)}
    within = {name: operators[name] for name in nested}
    after: dict[str, list[str]] = defaultdict(list)
    written: dict[tuple[str, str], SelectConfig] = {}
    for select in pipeline.selects:
        if select.source.text in nodes and select.target.text in nodes:
            source = place(select.source, select.source_port, "out", within)
            target = place(select.target, select.target_port, "in", within)
            after[source].append(target)
            written.setdefault((source, target), select)
    for name, inner in nested.items():
        for begin, ends in ways(name, inner).items():
            after[begin] += ends
    circle = _first_circle(after)
    if circle:
        closing = next(written[way] for way in reversed(list(pairwise(circle))) if way in written)
        names = [one for one, _ in groupby(node_of(place).partition("/")[0] for place in circle)]
        names = names if len(names) > 1 else names * 2
        message = f"events would go round in this pipeline: {' -> '.join(names)}"
        report(error(message, closing.source.span.to(closing.target.span)))


def _first_circle(after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The nodes of the first circle, with the first node again at the end. It uses no recursion, because chains may
    be long."""
    done: set[str] = set()
    for begin in after:
        path: dict[str, None] = {}  # in order, and quick to ask
        waiting: list[Iterator[str]] = [iter([begin])]
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
                if path:
                    done.add(path.popitem()[0])
            elif node in path:
                nodes = list(path)
                return (*nodes[nodes.index(node) :], node)
            elif node not in done:
                path[node] = None
                waiting.append(iter(after.get(node, ())))
    return ()


def _warn_of_loose_ends(pipeline: PipelineConfig, operators: Operators, nested: Nested, report: Report) -> None:
    sources = {place(s.source, s.source_port, "out", operators) for s in pipeline.selects}
    targets = {select.target.text for select in pipeline.selects}
    _warn_of_loose_ports(pipeline, sources, targets, report)
    for name in pipeline.streams:
        if name.text not in sources:
            report(_nothing_selected_from("stream", name.text, name))
        elif name.text not in targets:
            report(
                warning(
                    UNLINKED,
                    f"nothing is selected into stream `{name.text}`",
                    name.span,
                    "no event comes to it",
                )
            )
    for what, name in _created(pipeline):
        if what != "stream":
            # its errors leave by the pipeline's
            unsaid = what == "script" or (what == "pipeline" and not _selects_into_err(nested[name.text]))
            exits = [f"{name.text}/{port}" for port in _outputs(operators[name.text]) if port != ERR or not unsaid]
            _warn_of_loose_node(what, name, exits, sources, targets, report)


def _outputs(ports: Ports | None) -> Sequence[str]:
    return ports.outputs if ports else ()


def _selects_into_err(plan: PipelinePlan) -> bool:
    return any(select.target == ERR for select in plan.selects)


def _warn_of_loose_node(
    what: str,
    name: Name,
    exits: Sequence[str],
    sources: AbstractSet[str],
    targets: AbstractSet[str],
    report: Report,
) -> None:
    unread = [exit for exit in exits if exit not in sources]
    if name.text not in targets and unread == list(exits):
        report(warning(UNUSED, f"{what} `{name.text}` is created, never used", name.span, "it does nothing"))
    elif name.text not in targets:
        report(warning(UNLINKED, f"nothing is selected into {what} `{name.text}`", name.span, "no event comes to it"))
    else:
        for exit in unread:
            shown = name.text if exit == f"{name.text}/out" else exit
            report(_nothing_selected_from(what, shown, name))


def _warn_of_loose_ports(
    pipeline: PipelineConfig, sources: AbstractSet[str], targets: AbstractSet[str], report: Report
) -> None:
    hint = "events that come to it end there, and count as delivered"
    if pipeline.inputs is None and "in" not in sources:
        report(warning(UNLINKED, "nothing is selected from `in` in this pipeline", pipeline.defined, hint))
    for port in pipeline.inputs or ():
        if port.text not in sources:
            report(warning(UNLINKED, f"nothing is selected from `{port.text}` in this pipeline", port.span, hint))
    for port in pipeline.outputs or ():
        if port.text not in targets and port.text != ERR:
            report(
                warning(
                    UNLINKED,
                    f"nothing is selected into `{port.text}` in this pipeline",
                    port.span,
                    "no event leaves by it",
                )
            )


def _nothing_selected_from(what: str, shown: str, name: Name) -> Diagnostic:
    _, of_port, port = shown.partition("/")
    events = "events that leave it"
    if what == "stream":
        events = "events selected into it"
    elif of_port:
        events = f"events that it emits to `{port}`" if what == "script" else f"events that leave by `{port}`"
    hint = f"{events} end there, and count as delivered"
    return warning(UNLINKED, f"nothing is selected from {what} `{shown}`", name.span, hint)
