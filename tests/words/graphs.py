"""Random flows: logs on disk and in memory, pipelines that filter, reject, batch, choose and remove repeats,
files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

PIPELINES = {
    "pass": "select event from in into out;",
    "even": "select event from in where event.n % 2 == 0 into out;",
    "odd": "select event from in where event.ok into out;",  # of some events `ok` is no bool: they leave by err
    "made": 'select {"n": event.n, "ok": event.ok} from in into out;',
    "batch": "define operator b from generic::batch with count = 5, timeout = 50000000 end; create operator b;"
    " select event from in into b; select event from b into out;",
    "once": 'define operator d from qos::dedupe with key = "n" end; create operator d;'
    " select event from in into d; select event from d into out;",
    "turns": 'define operator r from qos::roundrobin with outputs = ["a", "b"] end; create operator r;'
    " select event from in into r; select event from r/a into out; select event from r/b into out2;",
    "buffer": "define operator m from qos::wal with max_elements = 50 end; create operator m;"
    " select event from in into m; select event from m into out;",
    "count": "define script c state 0 script let state = state + 1; let event.count = state; event end; create "
    "script c; select event from in into c; select event from c into out;",
}
LOG = '{"path": "%s", "chunk_size": 65536, "max_chunks": 8}'
CONNECTORS = {
    "feed": "from feed",
    "log": f"from wal with config = {LOG} end",
    "memory": 'from memory with config = {"max_elements": 50} end',
    "file": 'from file with codec = "json", postprocessors = ["separate"],'
    ' config = {"path": "%s", "mode": "append", "sync": "never"} end',
    "moody": "from moody",
}


@dataclass
class Graph:
    """`kinds`: of each node by its name. `links`: from (node, port) to a node."""

    kinds: dict[str, str] = field(default_factory=dict[str, str])
    links: dict[tuple[str, str, str], None] = field(default_factory=dict[tuple[str, str, str], None])

    def add(self, kind: str) -> str:
        name = f"{kind}{sum(other == kind for other in self.kinds.values()) + 1}"
        self.kinds[name] = kind
        return name

    def link(self, source: str, target: str, port: str = "out") -> None:
        self.links[source, port, target] = None

    def text(self) -> str:
        lines = ["define flow main flow"]
        for name, kind in self.kinds.items():
            if kind in PIPELINES:
                lines.append(f"define pipeline {name} into out, out2, err pipeline {PIPELINES[kind]} end;")
                lines.append(f"create pipeline {name};")
            else:
                settings = CONNECTORS[kind]
                lines.append(f"define connector {name} {settings % name if '%s' in settings else settings};")
                lines.append(f"create connector {name};")
        lines += [f"connect {self._place(s)}/{port} to {self._place(t)};" for s, port, t in self.links]
        return "\n".join([*lines, "end; deploy flow main;"])

    def _place(self, name: str) -> str:
        return f"/{'pipeline' if self.kinds[name] in PIPELINES else 'connector'}/{name}"


def two_logs(between: str = "pass") -> Graph:
    """A log behind a log: the flow in which `check` promised `none twice` and 375,677 lines stood twice. With
    `count`, a script with state, between the two, the second one does not recognise what the first one sends
    again."""
    graph = Graph()
    feed, first, second, file = graph.add("feed"), graph.add("log"), graph.add("log"), graph.add("file")
    for source, kind, target in ((feed, "pass", first), (first, between, second), (second, "pass", file)):
        way = graph.add(kind)
        graph.link(source, way)
        graph.link(way, target)
    return graph


def random_graph(dice: Random) -> Graph:
    graph = Graph()
    feeds = [graph.add("feed") for _ in range(dice.choice((1, 1, 2)))]
    logs = [graph.add("log") for _ in range(dice.choice((1, 1, 2, 2, 3)))]
    buffers = [graph.add("memory") for _ in range(dice.choice((0, 0, 0, 1)))]
    sinks = [graph.add("file") for _ in range(dice.choice((1, 1, 2)))]
    sinks += [graph.add("moody") for _ in range(dice.choice((0, 1)))]
    held = [*logs, *buffers]
    for feed in feeds:
        _way(graph, dice, feed, [dice.choice(logs)])
    for number, log in enumerate(held):
        further = held[number + 1 :] if dice.random() < 0.97 else held  # seldom a loop
        targets = dice.sample([*further, *sinks], k=min(dice.choice((1, 1, 2)), len([*further, *sinks])))
        _way(graph, dice, log, targets)
    for name in [name for name, kind in graph.kinds.items() if kind in ("odd", "file", "moody", "log")]:
        if dice.random() < 0.2:
            way = graph.add("pass")
            graph.link(name, way, "err")
            graph.link(way, dice.choice(sinks))
    return graph


def _way(graph: Graph, dice: Random, source: str, targets: Sequence[str]) -> None:
    """Some pipelines in a row, of which the last ones lead to all targets."""
    ends = [(source, "out")]
    for _ in range(dice.choice((1, 1, 2))):
        kind = dice.choice(("pass", "pass", "pass", *PIPELINES))
        pipeline = graph.add(kind)
        for end, port in ends:
            graph.link(end, pipeline, port)
        ends = [(pipeline, "out"), (pipeline, "out2")] if kind == "turns" else [(pipeline, "out")]
        if dice.random() < 0.2:  # a second way to the same place
            beside = graph.add("pass")
            for end, port in [link[:2] for link in graph.links if link[2] == pipeline]:
                graph.link(end, beside, port)
            ends.append((beside, "out"))
    for number, (end, port) in enumerate(ends):
        for target in targets if len(ends) == 1 or dice.random() < 0.5 else [targets[number % len(targets)]]:
            graph.link(end, target, port)
