"""Whether the selects of a pipeline can stand."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from walflow.diagnostics import Diagnostic, did_you_mean, error, warning
from walflow.expr.nodes import Name
from walflow.flow.config import PipelineConfig
from walflow.flow.links import find_circle

Report = Callable[[Diagnostic], None]


def check_selects(pipeline: PipelineConfig, inputs: Sequence[str], outputs: Sequence[str], report: Report) -> None:
    if not pipeline.whole:
        return
    found: list[Diagnostic] = []
    streams = [name.text for name in pipeline.streams]
    for select in pipeline.selects:
        _check_end(select.source, inputs, streams, "input", "from", found.append)
        _check_end(select.target, outputs, streams, "output", "into", found.append)
    _check_names(pipeline, {*inputs, *outputs}, found.append)
    _check_circles(pipeline, found.append)
    if not found:
        _warn_of_loose_ends(pipeline, found.append)
    for diagnostic in found:
        report(diagnostic)


def _check_end(
    name: Name, ports: Sequence[str], streams: Sequence[str], direction: str, word: str, report: Report
) -> None:
    if name.text not in ports and name.text not in streams:
        hint = did_you_mean(name.text, [*ports, *streams])
        hint = hint or f"add it: `{word} {', '.join([*ports, name.text])}`"
        report(error(f"this pipeline has no {direction} `{name.text}`", name.span, hint))


def _check_names(pipeline: PipelineConfig, ports: set[str], report: Report) -> None:
    first: dict[str, Name] = {}
    for name in pipeline.streams:
        if name.text in ports:
            report(error(f"`{name.text}` is a port of this pipeline already", name.span, "name the stream otherwise"))
        if name.text in first:
            hint = f"first at {first[name.text].span}"
            report(error(f"stream `{name.text}` is created twice", name.span, hint))
        first.setdefault(name.text, name)


def _check_circles(pipeline: PipelineConfig, report: Report) -> None:
    """Selects run in line, as pipelines do."""
    streams = {name.text for name in pipeline.streams}
    after: dict[str, list[str]] = defaultdict(list)
    for select in pipeline.selects:
        if select.source.text in streams and select.target.text in streams:
            after[select.source.text].append(select.target.text)
    circle = find_circle(after)
    if circle:
        closing = next(s for s in pipeline.selects if (s.source.text, s.target.text) == circle[-2:])
        message = f"events would go round in this pipeline: {' -> '.join(circle)}"
        report(error(message, closing.source.span.to(closing.target.span)))


def _warn_of_loose_ends(pipeline: PipelineConfig, report: Report) -> None:
    sources = {select.source.text for select in pipeline.selects}
    targets = {select.target.text for select in pipeline.selects}
    for name in pipeline.streams:
        if name.text not in sources:
            hint = "events selected into it end there, and count as delivered"
            report(warning(f"nothing is selected from stream `{name.text}`", name.span, hint))
        elif name.text not in targets:
            report(warning(f"nothing is selected into stream `{name.text}`", name.span, "no event comes to it"))
