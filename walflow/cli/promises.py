"""The guarantees of a flow, path by path, in the words of its connectors."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from walflow.cli.levels import PromiseLevel, lost_state, short_of
from walflow.cli.repeats import WayFromLog, listed, recognises, stored_again, taken_away
from walflow.codecs import GIVE_ANY_BYTE
from walflow.contract import Guarantee, Risk, risk_name
from walflow.framing import WHOLE
from walflow.plan import Assembly, NodeId
from walflow.plan.assembly import ERR, ConnectorPlan
from walflow.plan.graph import Graph, Path, Port
from walflow.plan.lanes import LanePlan, lanes
from walflow.plan.letters import lettered
from walflow.roles import type_of

STATE_IN_MEMORY: Final = "state-in-memory"
MOST_PATHS = 200  # a flow of a few diamonds has thousands


class Promise(NamedTuple):
    """One ack domain: from a source to a sink that acks to it. `ends_in`: the sink is also the source of the next
    domain, and this is what it is. `repeats`: the reasons why events of a log may come twice to a sink that
    recognises repeats. `once`: a sentence, where a log, or a table, recognises all that a log sends again.
    `dead_letters`: what becomes of what a table rejects. `short_of`: why it promises less than each level."""

    path: Path
    source: str
    sink: str
    ends_in: str
    repeats: Sequence[str]
    once: str = ""
    dead_letters: str = ""
    short_of: Mapping[PromiseLevel, Sequence[str]] = MappingProxyType({})


class PathPromises(NamedTuple):
    paths: list[Promise]
    more: bool  # paths than these
    stops: list[str]
    warnings: list[tuple[NodeId, str]]
    notes: list[str]


def promises(assembly: Assembly) -> PathPromises:
    graph = Graph(assembly)
    words = {node: _guarantee(graph, node) for node in graph.connectors}
    paths = list(islice(graph.paths(), MOST_PATHS + 1))
    seen = list(_seen(assembly, graph))
    return PathPromises(
        [_promise(path, words, graph) for path in paths[:MOST_PATHS]],
        len(paths) > MOST_PATHS,
        [sentence for node in graph.connectors for sentence in _stops(node, graph, lanes(assembly, graph, node))],
        [
            (node, warning)
            for node, guarantee in words.items()
            for warning in guarantee.warnings
            if not assembly.allowances.permits(risk_name(warning), *assembly.places_of(node))
        ]
        + [
            (plan.id, Risk(STATE_IN_MEMORY, lost_state(plan.domain)))
            for plan in assembly.pipelines
            if plan.domain is not None
            and not assembly.allowances.permits(STATE_IN_MEMORY, *assembly.places_of(plan.id))
        ],
        [f"{node}: {note}" for node, guarantee in words.items() for note in guarantee.notes]
        + [
            f"{one.plan.id}: {said}"
            for clause in NOTES
            for one in seen
            if clause.holds(one)
            for said in clause.says(one)
        ]
        + _behind_the_log(paths[:MOST_PATHS], words, graph)
        + _unlinked(assembly)
        + list(assembly.allowances.unneeded())
        + list(assembly.environment.notes()),
    )


class SeenConnector(NamedTuple):
    """A connector in its flow. `reads`: its events go somewhere. `written`: events come to it."""

    plan: ConnectorPlan
    graph: Graph
    reads: bool
    written: bool


def _seen(assembly: Assembly, graph: Graph) -> Iterator[SeenConnector]:
    read = {link.source for link in assembly.links if link.source_port != ERR}
    written = {link.target for link in assembly.links}
    for plan in assembly.connectors:
        yield SeenConnector(plan, graph, plan.id in read, plan.id in written)


def _forgets(one: SeenConnector) -> bool:
    """It cannot ask a log, after a restart, what it had taken before."""
    recalls = one.plan.connector.traits.recalls is not None
    return recalls and bool(_behind(one)) and one.graph.recalling(one.plan.id) is None


def _behind(one: SeenConnector) -> list[NodeId]:
    return sorted(reached for reached in one.graph.sinks_of(one.plan.id) if reached != one.plan.id)


def _where_it_forgets(one: SeenConnector) -> list[str]:
    behind = _behind(one)
    where = f"its events go to {listed(behind, 'and')}" if len(behind) > 1 else f"{behind[0].name} is no log"
    return [f"here a restart forgets all its keys, because {where}; a `wal` as the only sink would give them back"]


def _is_uncut(one: SeenConnector) -> bool:
    """It reads a stream, which nothing cuts into events. It works as long as each write comes alone."""
    codec, framing = one.plan.codec, one.plan.preframing
    found = codec is None or codec.name in {"binary", "null"} or framing is None or framing.finds_events
    return one.reads and one.plan.connector.traits.takes_bytes and not found


def _how_to_cut(one: SeenConnector) -> list[str]:
    read = (
        "one read of its stream is one event, so two that arrive together are taken for one, and so is a part of one"
    )
    return [f"{read}; {_cutting(one.plan)}"]


def _is_unseparated(one: SeenConnector) -> bool:
    """It writes one text behind another. What is passed through as it is, as `string`, may want that."""
    codec, framing = one.plan.codec, one.plan.postframing
    meant = codec is None or codec.name in {*GIVE_ANY_BYTE, "string", "null"} or framing is None
    told_apart = framing is not None and (framing.encoders or framing.framing is not WHOLE)
    return one.written and one.plan.connector.traits.takes_bytes and not meant and not told_apart


def _is_set_for_spark(one: SeenConnector) -> bool:
    return "/" in one.plan.id.name and one.plan.kind == type_of("engine") and bool(_settings(one.plan))


def _settings(plan: ConnectorPlan) -> list[str]:
    """As they are written, and where. A value of `conf` may be a secret, so it is not shown."""
    return [
        f"{key} at {span}" if str(key).startswith("conf.") else f"{key} = {span.text} at {span}"
        for key, span in plan.settings.items()
        if key != "conf"
    ]


def _missing_folders(one: SeenConnector) -> list[str]:
    folders = [need.folder for need in one.plan.connector.needs() if need.folder is not None]
    return [os.path.abspath(folder) for folder in folders if not os.path.isdir(folder)]


@dataclass(frozen=True)
class NoteClause:
    """`says`: the sentences about a connector of which it `holds`."""

    holds: Callable[[SeenConnector], bool]
    says: Callable[[SeenConnector], Sequence[str]]


NOTES: Final[Sequence[NoteClause]] = (
    NoteClause(_forgets, _where_it_forgets),
    NoteClause(_is_uncut, _how_to_cut),
    NoteClause(
        _is_unseparated,
        lambda one: [
            'nothing separates the events that it writes; `postprocessors = ["separate"]` ends each with a newline'
        ],
    ),
    NoteClause(_is_set_for_spark, lambda one: [f"set for Spark: {'; '.join(_settings(one.plan))}"]),
    NoteClause(  # what a look at the disk shows; `check --environment` tries the rest
        lambda one: bool(_missing_folders(one)),
        lambda one: [
            f"there is no directory {folder} on this machine, and a start makes none"
            for folder in _missing_folders(one)
        ],
    ),
)


def _behind_the_log(paths: Sequence[Path], words: Mapping[NodeId, Guarantee], graph: Graph) -> list[str]:
    """Filters and scripts that take a sink what it recognises repeats by, and could stand before the log."""
    found: dict[tuple[NodeId, NodeId], list[NodeId]] = {}
    for path in paths:
        log, sink = path.source, path.sink
        if not (words[sink].once and graph.connectors[log].connector.traits.positions) or "/" in log.name:
            continue
        knows = graph.connectors[sink].connector
        if knows.traits.positions or knows.traits.frontier or not graph.sole_path(log, sink):
            continue
        losing = graph.losing(log, sink)
        if losing and losing <= set(graph.movable(log)):
            for node in losing:
                found.setdefault((node, log), []).append(sink)
    return [
        f"{node}: it may stand before {log.name}, if {log.name} need not keep what it takes out. Behind {log.name}, "
        f"{listed(sorted(set(sinks)))} cannot recognise what {log.name} sends again"
        for (node, log), sinks in sorted(found.items())
    ]


def _cutting(plan: ConnectorPlan) -> str:
    assert plan.codec is not None
    assert plan.preframing is not None
    if plan.preframing.steps:
        return "none of its preprocessors cuts the stream: `separate` cuts at newlines, `length-prefixed` by lengths"
    if plan.codec.name in {*GIVE_ANY_BYTE, "yaml"}:
        return '`preprocessors = ["length-prefixed"]` cuts it where the sender writes the length before each'
    return '`preprocessors = ["separate"]` cuts it at newlines'


def _unlinked(assembly: Assembly) -> list[str]:
    """A sentence a flow: whose rejected events no link takes; and a sentence a log that keeps them."""
    taken = {link.source for link in assembly.links if link.source_port == ERR}
    linked = {node for link in assembly.links for node in (link.source, link.target)}
    rejecting = [plan.id for plan in assembly.connectors if ERR in plan.connector.ports_used().outputs]
    rejecting += [plan.id for plan in assembly.pipelines if ERR in plan.outputs and plan.may_reject]
    graph = Graph(assembly)
    keeping = {plan.id: lettered(graph, plan.id) for plan in assembly.connectors}
    kept = {sink for sinks in keeping.values() for sink in sinks}
    left: dict[str, list[NodeId]] = {}
    for node in rejecting:
        if node in linked and node not in taken | kept and "/" not in node.name:
            left.setdefault(node.flow, []).append(node)
    return [
        f"{log}: an event that {listed(sinks, 'or')} rejects is kept: `walflow letters` shows it and sends it again"
        for log, sinks in keeping.items()
        if sinks
    ] + [
        (
            f"{flow}: an event that {listed(nodes, 'or')} rejects is logged, counted and dropped; "
            "a link from its `err` keeps it"
        )
        for flow, nodes in left.items()
    ]


def _guarantee(graph: Graph, node: NodeId) -> Guarantee:
    return graph.connectors[node].connector.guarantee(behind_log=graph.behind_log(node))


def _results_of(buffer: NodeId) -> str:
    """What a buffer holds that no file declares, as `counts/results/out`."""
    pipeline, results, port = buffer.name.rpartition("/results/")
    return f" of the results that leave {pipeline} by `{port}`" if results else ""


def _promise(path: Path, words: dict[NodeId, Guarantee], graph: Graph) -> Promise:
    sink = graph.connectors[path.sink].connector
    kept = (
        "is a log"
        if sink.traits.positions
        else f"is a buffer in memory{_results_of(path.sink)}, which is lost with walflow"
    )
    logs = sorted(graph.logs_behind(path))
    repeats = _repeats(path, logs, words, graph) if words[path.sink].once else []
    known = bool(logs) and all(recognises(log, path.sink, words, graph) for log in logs)
    say: Callable[[str], str] = from_a_file
    if sink.traits.frontier:
        say = into_a_table
    elif graph.connectors[path.source].connector.traits.positions:
        say = in_a_row
    once = say(listed(logs)) if known else ""
    return Promise(
        path,
        words[path.source].source,
        words[path.sink].sink,
        kept if sink.traits.forwards else "",
        repeats,
        once,
        dead_letters(path, graph) if known and sink.traits.frontier else "",
        short_of(path, words, graph),
    )


def _repeats(path: Path, logs: Sequence[NodeId], words: Mapping[NodeId, Guarantee], graph: Graph) -> list[str]:
    """Why an event may come twice to a sink that recognises repeats."""
    return [
        reason
        for log in logs
        for reason in (*stored_again(log, words, graph), *taken_away(WayFromLog(log, path.sink, graph)))
    ]


def dead_letters(path: Path, graph: Graph) -> str:
    """Of a sink with a frontier: what becomes of what it rejects."""
    logs = graph.logs_of(path.sink)
    if logs and all(path.sink in lettered(graph, log) for log in logs):
        return (
            f"an event that {path.sink.name} rejects is kept as a letter, which is on disk before its position is "
            "stored here. A letter that is sent again is stored once. Of too many letters the oldest are dropped"
        )
    begin = graph.err_of(path.sink)
    sinks = sorted(graph.sinks_from(begin))
    if not sinks:
        return f"an event that {path.sink.name} rejects is dropped: nothing is linked to its `err`"
    return (
        f"an event that {path.sink.name} rejects comes to {listed(sinks)} at least once: its error record is acked "
        "there before its position is stored here"
    )


def in_a_row(log: str) -> str:
    return (
        f"each event that comes here from {log} is appended once, also after kill -9 or a power cut: what {log} "
        "sends again is recognised by its position and acked"
    )


def into_a_table(log: str) -> str:
    return (
        f"each event that comes here from {log} is stored once, whatever dies: its position is stored in the same "
        f"commit, and what {log} sends again is recognised by it and acked"
    )


def from_a_file(file: str) -> str:
    return (
        f"each event that comes here from {file} is appended once, also after kill -9: what {file} reads again is "
        "recognised by its offset and acked. After a power cut the last 32 MiB that were read may come twice"
    )


def _stops(source: NodeId, graph: Graph, planned: Sequence[LanePlan]) -> list[str]:
    """Gates stand at the source: there is one for all its branches, but those of an operator that chooses. A log has
    one for each lane."""
    if len(planned) > 1:
        return _lanes(source, graph, planned)
    stops = graph.stopped_by(source)
    sinks = sorted(sink for sink in stops.sinks if source in graph.sources_of(sink))
    sentences = [_choice(source, chooser, graph) for chooser in sorted(stops.choosers)]
    if len(sinks) > 1 or (sinks and sentences):
        sent = f"{source} sends to {listed(sinks)}"
        sentences.append(f"{sent}: while one of them is unavailable, {source.name} sends to none of them")
    return sentences


def _lanes(source: NodeId, graph: Graph, planned: Sequence[LanePlan]) -> list[str]:
    of = {lane: graph.stops([*lane.entries, *graph.err_of(source)]) for lane in planned}
    several = "; ".join(listed(lane.sinks) or lane.name for lane in planned)
    sentences = [
        (
            f"{source} has {len(planned)} lanes: {several}. An unavailable sink stops only its own lane, "
            "until the log is full"
        )
    ]
    sentences += [
        _choice(source, chooser, graph)
        for chooser in sorted({one for stops in of.values() for one in stops.choosers})
    ]
    for sink in sorted({one for stops in of.values() for one in stops.sinks}):
        stopped = [lane for lane, stops in of.items() if sink in stops.sinks and sink not in lane.sinks]
        if stopped:
            names = listed([one for lane in stopped for one in lane.sinks])
            sentences.append(
                f"rejected events come to {sink.name}: while it is unavailable, "
                f"{source.name} does not send to {names} either"
            )
    return sentences


def _choice(source: NodeId, chooser: Port, graph: Graph) -> str:
    sinks = sorted({sink for exit in graph.exits(chooser) for sink in graph.sinks_behind(exit)})
    plan = graph.choosers[chooser]
    return plan.operator.choice(str(source), listed(sinks), f"{chooser.node.name}/{chooser.name}")


def chain(path: Path) -> str:
    """tcp_server/err -> debug -> stdio; default ports are left out, and those that lead to a connector within."""
    first = path.links[0]
    names = [_with_port(first.source, first.source_port, "out")]
    for link, following in zip(path.links, [*path.links[1:], None], strict=True):
        name = link.target.name
        if not _within(link.source, link.target):
            name = _with_port(link.target, link.target_port, "in")
        if following and not _within(following.target, following.source):
            name = _with_port(following.source, following.source_port, "out", name)
        names.append(name)
    return " -> ".join(names)


def _within(connector: NodeId, pipeline: NodeId) -> bool:
    """It is an operator of that pipeline: see walflow.plan.domains."""
    return connector.kind == "connector" and connector.name.startswith(f"{pipeline.name}/")


def _with_port(node: NodeId, port: str, default: str, so_far: str | None = None) -> str:
    name = so_far or node.name
    return name if port == default else f"{name}/{port}"
