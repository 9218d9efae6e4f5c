"""A picture for a browser or a page, without a program that draws it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from walflow.cli.graph.picture import Arrow, Box, Picture, Role, colour
from walflow.plan import NodeId
from walflow.plan.layout import BoxPlace, places

LETTER: Final = 7.3  # pixels, the widest of most sans-serif fonts at 13
LINE: Final = 17
PADDING: Final = 14
HEIGHT: Final = 2 * LINE + PADDING
BETWEEN_COLUMNS: Final = 70  # at least: labels of arrows stand there
SMALL: Final = 6.2  # pixels, as LETTER, of a label
BETWEEN_ROWS: Final = 26
MARGIN: Final = 24
TITLE: Final = 26
TURN: Final = 12
DIP: Final = 22  # how far below its flow an arrow runs that leads back

STYLE: Final = """\
text { font: 13px sans-serif; fill: #1b1f24; text-anchor: middle }
.kind, .label, .caption { font-size: 11px; fill: #57606a }
.title, .caption { text-anchor: start }
.title { font-weight: bold }
.box { fill: #f6f8fa; stroke: #57606a }
.pipeline { fill: #ffffff; stroke: #8c959f }
.log { fill: #fff8c5; stroke: #9a6700 }
.flow { fill: none; stroke: #d0d7de }
.arrow { fill: none; stroke: #57606a }
.err { stroke: #cf222e; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117 } text { fill: #e6edf3 }
  .kind, .label, .caption { fill: #9198a1 }
  .box { fill: #161b22 } .pipeline { fill: #0d1117 } .log { fill: #3b2e00 } .flow { stroke: #30363d }
}
"""


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


class Drawn(NamedTuple):
    frame: Rect
    boxes: Mapping[NodeId, Rect]


def svg(picture: Picture) -> str:
    drawn = _drawn(picture)
    frames = [flow.frame for flow in drawn.values()]
    bottom = max((frame.bottom for frame in frames), default=0.0) + MARGIN
    width = max(
        [frame.right + MARGIN for frame in frames] + [_width(c) + 2 * MARGIN for c in picture.captions] or [0]
    )
    height = bottom + LINE * len(picture.captions) + (MARGIN / 2 if picture.captions else 0)
    return "".join(f"{line}\n" for line in _document(picture, drawn, width, height, bottom))


def _document(
    picture: Picture, drawn: Mapping[str, Drawn], width: float, height: float, bottom: float
) -> Iterator[str]:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<style>{STYLE}</style>"
    yield '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    yield '<path d="M0 0 8 4 0 8z" fill="#57606a"/></marker></defs>'
    boxes = {node: rect for flow in drawn.values() for node, rect in flow.boxes.items()}
    for name, flow in drawn.items():
        yield f'<rect class="flow" rx="8" {_at(flow.frame)}/>'
        yield (
            f'<text class="title" x="{flow.frame.x + PADDING:.0f}" y="{flow.frame.y + 18:.0f}">{escape(name)}</text>'
        )
    for arrow in picture.arrows:
        yield from _arrow(arrow, boxes, drawn[arrow.source.flow].frame)
    for flow_boxes in picture.flows.values():
        for box in flow_boxes:
            yield from _box(box, boxes[box.node])
    for number, caption in enumerate(picture.captions):
        yield f'<text class="caption" x="{MARGIN}" y="{bottom + LINE * number:.0f}">{escape(caption)}</text>'
    yield "</svg>"


def _drawn(picture: Picture) -> dict[str, Drawn]:
    drawn: dict[str, Drawn] = {}
    top = float(MARGIN)
    for flow, boxes in picture.flows.items():
        links = [(arrow.source, arrow.target) for arrow in picture.arrows if arrow.source.flow == flow]
        placed = places([box.node for box in boxes], links)
        labels = [len(arrow.label) * SMALL + PADDING for arrow in picture.arrows if arrow.source.flow == flow]
        drawn[flow] = _flow(boxes, placed, links, top, max([BETWEEN_COLUMNS, *labels]))
        top = drawn[flow].frame.bottom + MARGIN
    return drawn


def _flow(
    boxes: Sequence[Box],
    placed: Mapping[NodeId, BoxPlace],
    links: Sequence[tuple[NodeId, NodeId]],
    top: float,
    between: float,
) -> Drawn:
    columns = max((place.column for place in placed.values()), default=-1) + 1
    widths = [max(_width(*box.lines) for box in boxes if placed[box.node].column == c) for c in range(columns)]
    rows = max((place.row for place in placed.values()), default=-1) + 1
    rects: dict[NodeId, Rect] = {}
    for box in boxes:
        column, row = placed[box.node]
        x = MARGIN + PADDING + sum(widths[:column]) + between * column
        y = top + TITLE + PADDING / 2 + row * (HEIGHT + BETWEEN_ROWS)
        rects[box.node] = Rect(x, y, widths[column], HEIGHT)
    back = any(placed[target].column <= placed[source].column for source, target in links)
    width = sum(widths) + between * max(columns - 1, 0) + 2 * PADDING
    height = TITLE + rows * (HEIGHT + BETWEEN_ROWS) + (DIP if back else 0)
    return Drawn(Rect(MARGIN, top, width, height), rects)


def _width(*lines: str) -> float:
    return max(len(line) for line in lines) * LETTER + 2 * PADDING


def _at(rect: Rect) -> str:
    return f'x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}"'


def _box(box: Box, rect: Rect) -> Iterator[str]:
    style = {Role.PIPELINE: "box pipeline", Role.LOG: "box log"}.get(box.role, "box")
    radius = HEIGHT / 2 if box.role is Role.PIPELINE else 4
    yield f'<rect class="{style}" rx="{radius:.0f}" {_at(rect)}/>'
    x = rect.x + rect.width / 2
    first = rect.middle + 4 - LINE / 2 * (len(box.lines) - 1)
    for number, line in enumerate(box.lines):
        kind = ' class="kind"' if number else ""
        yield f'<text{kind} x="{x:.1f}" y="{first + number * LINE:.1f}">{escape(line)}</text>'


def _arrow(arrow: Arrow, boxes: Mapping[NodeId, Rect], frame: Rect) -> Iterator[str]:
    source, target = boxes[arrow.source], boxes[arrow.target]
    style = "arrow err" if arrow.err else "arrow"
    if target.x > source.x:
        reach = min((target.x - source.right) / 2, 60)
        way = (
            f"M{source.right:.1f} {source.middle:.1f} C{source.right + reach:.1f} {source.middle:.1f} "
            f"{target.x - reach:.1f} {target.middle:.1f} {target.x:.1f} {target.middle:.1f}"
        )
        at = (source.right + target.x) / 2, (source.middle + target.middle) / 2 - 5
    else:  # between the columns and below all boxes, so that it crosses none
        low, begin, end = frame.bottom - DIP / 2, source.right + TURN, target.x - TURN
        way = (
            f"M{source.right:.1f} {source.middle:.1f} Q{begin:.1f} {source.middle:.1f} {begin:.1f} "
            f"{source.middle + TURN:.1f} V{low - TURN:.1f} Q{begin:.1f} {low:.1f} {begin - TURN:.1f} {low:.1f} "
            f"H{end + TURN:.1f} Q{end:.1f} {low:.1f} {end:.1f} {low - TURN:.1f} V{target.middle + TURN:.1f} "
            f"Q{end:.1f} {target.middle:.1f} {target.x:.1f} {target.middle:.1f}"
        )
        at = (begin + end) / 2, low - 6
    own = f' style="stroke:{colour(arrow.lane)}"' if arrow.lane is not None else ""
    yield f'<path class="{style}"{own} marker-end="url(#tip)" d="{way}"/>'
    if arrow.label:
        yield f'<text class="label" x="{at[0]:.1f}" y="{at[1]:.1f}">{escape(arrow.label)}</text>'
