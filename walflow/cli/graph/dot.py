"""Graphviz's language."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.cli.graph.picture import Picture, Role, colour
from walflow.plan import NodeId

SHAPES: Final[Mapping[Role, str]] = {
    Role.SOURCE: "box",
    Role.SINK: "box",
    Role.BOTH: "box",
    Role.LOG: "cylinder",
    Role.PIPELINE: "ellipse",
}


def dot(picture: Picture) -> str:
    return "".join(f"{line}\n" for line in _lines(picture))


def _lines(picture: Picture) -> Iterator[str]:
    names: dict[NodeId, str] = {}
    yield "digraph walflow {"
    yield '    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif"];'
    for number, (flow, boxes) in enumerate(picture.flows.items()):
        yield f"    subgraph cluster_{number} {{"
        yield f"        label={_quoted(flow)};"
        for box in boxes:
            names[box.node] = f"n{len(names)}"
            label = _quoted("\n".join(box.lines))
            yield f"        {names[box.node]} [label={label}, shape={SHAPES[box.role]}];"
        yield "    }"
    for arrow in picture.arrows:
        settings = [f"label={_quoted(arrow.label)}"] if arrow.label else []
        settings += ["style=dashed"] if arrow.err else []
        settings += [f'color="{colour(arrow.lane)}"'] if arrow.lane is not None else []
        listed = f" [{', '.join(settings)}]" if settings else ""
        yield f"    {names[arrow.source]} -> {names[arrow.target]}{listed};"
    if picture.captions:
        yield f"    label={_quoted(chr(10).join(picture.captions))};"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
