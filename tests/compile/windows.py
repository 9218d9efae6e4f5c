"""Windows as plainly as can be said: every tick is observed, every window keeps all its events."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.compile.world import USES
from walflow.compile.compiled import BlockCall, BlockOutcome, Compiled
from walflow.compile.compiler import compile_region
from walflow.compile.reads import Decoded
from walflow.diagnostics import Diagnostic, Source, has_errors
from walflow.lang.deploy import pipeline
from walflow.lang.modules import Library
from walflow.lang.parser import parse_query
from walflow.plan.pipelines import plan_pipeline
from walflow_kernel.moment import Moment
from walflow_kernel.state import State
from walflow_kernel.windows.ticks import TICK_NS

TARGET = """{
    "group": group[0], "window": window, "count": aggr::stats::count(), "sum": aggr::stats::sum(event.x),
    "mean": aggr::stats::mean(event.x), "min": aggr::stats::min(event.x), "max": aggr::stats::max(event.x),
    "var": aggr::stats::var(event.x), "first": aggr::win::first(event.x), "last": aggr::win::last(event.x),
    "flat": aggr::win::collect_flattened(event.x), "nested": aggr::win::collect_nested(event.x)
}"""


class WindowSpec(NamedTuple):
    kind: Literal["size", "interval"]
    of: int


class Stamped(NamedTuple):
    at: int
    group: str
    x: float


@dataclass
class ModelWindow:
    flat: list[float] = field(default_factory=list[float])
    nested: list[Any] = field(default_factory=list[Any])
    fill: int = 0
    due: int = 0


class Model:
    def __init__(self, windows: Sequence[WindowSpec]) -> None:
        self.windows = windows
        self.open: dict[tuple[str, int], ModelWindow] = {}
        self.results: dict[str, list[dict[str, object]]] = defaultdict(list)
        self.now = 0

    def event(self, event: Stamped) -> None:
        self.tick(event.at)
        self.feed(event.group, 0, [event.x], [event.x], event.at)

    def tick(self, now: int) -> None:
        for tick in range(self.now // TICK_NS * TICK_NS + TICK_NS, now + 1, TICK_NS):
            for number in range(len(self.windows)):
                for (group, at), window in [*self.open.items()]:
                    if at == number and window.due and window.due <= tick:
                        self.close(group, at, tick)
        self.now = now

    def feed(self, group: str, number: int, flat: list[float], nested: list[Any], at: int) -> None:
        kind, of = self.windows[number]
        if kind == "interval" and (group, number) in self.open and self.open[group, number].due <= at:
            self.close(group, number, at)
        window = self.open.setdefault((group, number), ModelWindow(due=at + of if kind == "interval" else 0))
        window.flat += flat
        window.nested += nested
        window.fill += 1
        if kind == "size" and window.fill >= of:
            self.close(group, number, at)

    def close(self, group: str, number: int, at: int) -> None:
        window = self.open.pop((group, number))
        values = window.flat
        self.results[group].append(
            {
                "group": group,
                "window": f"w{number}",
                "count": len(values),
                "sum": float(sum(values)),
                "mean": sum(values) / len(values),
                "min": float(min(values)),
                "max": float(max(values)),
                "var": statistics.variance(map(float, values)) if len(values) > 1 else None,
                "first": values[0],
                "last": values[-1],
                "flat": values,
                "nested": window.nested,
            }
        )
        if number + 1 < len(self.windows):
            self.feed(group, number + 1, values, [window.nested], at)


@cache
def query(text: str) -> Compiled:
    """The one region of a query."""
    said: list[Diagnostic] = []
    definition = parse_query(Source("query.trickle", USES + text), "query", said.append)
    library = Library(Path("/nonexistent"), said.append)
    config = pipeline(definition.name._replace(text="test"), definition, definition.name, library, said.append)
    plan = plan_pipeline(config, {}, said.append)
    assert not has_errors(said), said
    [region] = plan.regions
    return compile_region(region)


def windowed(windows: Sequence[WindowSpec]) -> Compiled:
    defined = "".join(
        f"define window w{number} from tumbling with {kind} = {of} end; " for number, (kind, of) in enumerate(windows)
    )
    named = ", ".join(f"w{number}" for number in range(len(windows)))
    return query(f"{defined} select {TARGET} from in[{named}] group by event.g into out;")


def block(compiled: Compiled, at: int, events: Sequence[object], state: State) -> BlockOutcome:
    call = BlockCall(Moment(at), range(len(events)), {}, None, lambda number: None)
    return compiled.run(Decoded(range(len(events)), [*events]), call, state)


def left(outcome: BlockOutcome, exit: str = "out") -> list[Any]:
    assert not outcome.refused
    return list(outcome.rows[exit].values or ())
