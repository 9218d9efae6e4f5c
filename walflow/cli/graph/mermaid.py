"""Mermaid: what Markdown pages on GitHub, GitLab and in mkdocs draw."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.cli.graph.picture import Box, Picture, Role, colour
from walflow.plan import NodeId

SHAPES: Final[Mapping[Role, tuple[str, str]]] = {
    Role.SOURCE: ("[", "]"),
    Role.SINK: ("[", "]"),
    Role.BOTH: ("[", "]"),
    Role.LOG: ("[(", ")]"),
    Role.PIPELINE: ("([", "])"),
}


def mermaid(picture: Picture) -> str:
    return "".join(f"{line}\n" for line in _lines(picture))


def _lines(picture: Picture) -> Iterator[str]:
    names: dict[NodeId, str] = {}
    yield "flowchart LR"
    for number, (flow, boxes) in enumerate(picture.flows.items()):
        yield f"    subgraph flow{number}[{_quoted(flow)}]"
        for box in boxes:
            names[box.node] = f"n{len(names)}"
            yield f"        {names[box.node]}{_box(box)}"
        yield "    end"
    for arrow in picture.arrows:
        line = "-.->" if arrow.err else "-->"
        label = f"|{_quoted(arrow.label)}|" if arrow.label else ""
        yield f"    {names[arrow.source]} {line}{label} {names[arrow.target]}"
    for number, arrow in enumerate(picture.arrows):
        if arrow.lane is not None:
            yield f"    linkStyle {number} stroke:{colour(arrow.lane)}"
    for caption in picture.captions:
        yield f"    %% {caption}"


def _box(box: Box) -> str:
    opening, closing = SHAPES[box.role]
    return f"{opening}{_quoted('<br/>'.join(map(_escaped, box.lines)), escape=False)}{closing}"


def _quoted(text: str, *, escape: bool = True) -> str:
    return f'"{_escaped(text) if escape else text}"'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
