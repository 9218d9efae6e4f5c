"""What a path promises, as a level that `walflow check --require` asks for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from walflow.cli.repeats import WayFromLog, listed, recognises, stored_again, taken_away, ways_in
from walflow.contract import Guarantee, Lossless
from walflow.plan import NodeId
from walflow.plan.assembly import ERR, PipelinePlan, StateDomain
from walflow.plan.graph import Graph, Path
from walflow.plan.letters import lettered
from walflow_kernel.windows.frame import WINDOWS


class PromiseLevel(Enum):
    """In the order of what they ask for."""

    AT_LEAST_ONCE = "at-least-once"
    ONCE = "once"
    ONCE_FROM_SOURCE = "once-from-source"


class JudgedPath(NamedTuple):
    path: Path
    words: Mapping[NodeId, Guarantee]
    graph: Graph

    @property
    def logs(self) -> Sequence[NodeId]:
        """What sends its events again: logs, or files that are followed."""
        return sorted(self.graph.logs_behind(self.path))

    @property
    def of_rejected(self) -> bool:
        """Its events are error records of a sink, or of a pipeline."""
        return any(link.source_port == ERR for link in self.path.links)

    @property
    def into_a_log(self) -> bool:
        """It ends in a log, and no log is before it."""
        return self.graph.connectors[self.path.sink].connector.traits.positions and not self.logs

    @property
    def pipelines(self) -> Sequence[PipelinePlan]:
        return [
            self.graph.pipelines[link.target] for link in self.path.links[:-1] if link.target in self.graph.pipelines
        ]

    def says(self, node: NodeId, sentence: str) -> str:
        return f"{node.name}: {sentence}" if sentence else f"{node.name} promises nothing"


@dataclass(frozen=True)
class LevelClause:
    """`says`: why a path promises less than this level; nothing, if it does not."""

    level: PromiseLevel
    says: Callable[[JudgedPath], Sequence[str]]


def short_of(path: Path, words: Mapping[NodeId, Guarantee], graph: Graph) -> Mapping[PromiseLevel, Sequence[str]]:
    """Why the path promises less than each level."""
    judged = JudgedPath(path, words, graph)
    reasons: dict[PromiseLevel, list[str]] = {level: [] for level in PromiseLevel}
    for clause in CLAUSES:
        reasons[clause.level] += clause.says(judged)
    lost, twice, again = (
        reasons[PromiseLevel.AT_LEAST_ONCE],
        reasons[PromiseLevel.ONCE],
        reasons[PromiseLevel.ONCE_FROM_SOURCE],
    )
    into = judged.into_a_log
    return {
        PromiseLevel.AT_LEAST_ONCE: lost,
        PromiseLevel.ONCE: [] if into else [*lost, *twice],
        PromiseLevel.ONCE_FROM_SOURCE: [*lost, *twice, *again],
    }


def _source_loses(one: JudgedPath) -> Iterator[str]:
    source = one.path.source
    said = one.words[source].source
    if isinstance(said, Lossless):
        return
    if one.path.links[0].source_port != ERR:
        yield one.says(source, said)
    elif not one.logs:  # what a sink rejects is sent again by the log before it, until its error record is acked
        yield f"no log is before {source.name}: an error record that fails is lost"


def _state_is_lost(one: JudgedPath) -> Iterator[str]:
    for plan in one.pipelines:
        if plan.domain is not None:
            yield f"{plan.id.name}: {lost_state(plan.domain)}"


def _sink_loses(one: JudgedPath) -> Iterator[str]:
    said = one.words[one.path.sink].sink
    if not isinstance(said, Lossless):
        yield one.says(one.path.sink, said)


def _rejected_is_dropped(one: JudgedPath) -> Iterator[str]:
    """An error record that is rejected itself is not asked about."""
    if one.of_rejected:
        return
    graph = one.graph
    rejecting = [plan.id for plan in one.pipelines if ERR in plan.outputs and plan.may_reject]
    ends = [one.path.sink] if one.logs else [one.path.source, one.path.sink]
    rejecting += [node for node in ends if ERR in graph.connectors[node].connector.ports_used().outputs]
    unlinked = [node for node in rejecting if not graph.is_linked(node, ERR)]
    kept = [node for node in unlinked if any(node in lettered(graph, log) for log in one.logs)]
    if kept:
        what = f"an event that {listed(kept, 'or')} rejects is kept as a letter"
        yield f"{what}, and of too many letters the oldest are dropped: a link from its `err` keeps all"
    left = [node for node in unlinked if node not in kept]
    if left:
        yield f"an event that {listed(left, 'or')} rejects is dropped: a link from its `err` keeps it"


def _no_log(one: JudgedPath) -> Iterator[str]:
    if not one.logs and not one.into_a_log and not one.of_rejected:
        yield f"there is no log between {one.path.source.name} and {one.path.sink.name}"


def _may_come_twice(one: JudgedPath) -> Iterator[str]:
    """Of error records: no. They are asked to come at least once."""
    sink = one.path.sink
    if one.of_rejected:
        return
    for log in one.logs:
        if recognises(log, sink, one.words, one.graph):
            continue
        away = taken_away(WayFromLog(log, sink, one.graph)) if one.words[sink].once else ()
        yield from away or [f"{sink.name} does not store which positions of {log.name} it has"]


def _is_stored_again(one: JudgedPath) -> Iterator[str]:
    if one.of_rejected:
        return
    if one.into_a_log:
        yield from _comes_again(one.path.source, one.path.sink, one)
    for log in one.logs:
        for before, into in ways_in(log, one.graph):
            yield from _comes_again(before, into, one)


def _comes_again(source: NodeId, log: NodeId, one: JudgedPath) -> Iterator[str]:
    graph = one.graph
    if recognises(source, log, one.words, graph):
        return
    connector = graph.connectors[source].connector
    if connector.traits.recalls is not None and graph.recalling(source) == log:
        return
    again = [reason for reason in stored_again(log, one.words, graph) if source.name in reason]
    yield from again or [f"{log.name} cannot tell an event that comes to {source.name} again from a new one"]


CLAUSES: Final[Sequence[LevelClause]] = (
    LevelClause(PromiseLevel.AT_LEAST_ONCE, lambda one: [*_source_loses(one)]),
    LevelClause(PromiseLevel.AT_LEAST_ONCE, lambda one: [*_state_is_lost(one)]),
    LevelClause(PromiseLevel.AT_LEAST_ONCE, lambda one: [*_sink_loses(one)]),
    LevelClause(PromiseLevel.AT_LEAST_ONCE, lambda one: [*_rejected_is_dropped(one)]),
    LevelClause(PromiseLevel.ONCE, lambda one: [*_no_log(one)]),
    LevelClause(PromiseLevel.ONCE, lambda one: [*_may_come_twice(one)]),
    LevelClause(PromiseLevel.ONCE_FROM_SOURCE, lambda one: [*_is_stored_again(one)]),
)


def lost_state(domain: StateDomain) -> str:
    names = [f"`{name}`" for name in domain.keeps if WINDOWS not in name]
    several = len(names) > 1
    lost = (
        "and with %s the results that no sink has acked. If %s must survive, run the pipeline on Spark: "
        '`#!config engine = "spark"`'
    )
    if len(names) == len(domain.keeps):
        listed = f"scripts {', '.join(names[:-1])} and {names[-1]} keep" if several else f"script {names[0]} keeps"
        return (
            f"{listed} `state` in memory, and an event is acked once it is in it. When walflow stops or dies, the "
            f"state is lost, {lost % ('it', 'it')}"
        )
    what = "windows, and `state` of scripts, are" if names else "windows are"
    return (
        f"{what} in memory, and an event is acked once a window holds it. When walflow stops or dies, the open "
        f"windows are lost (`walflow run --flush` closes them at a stop), {lost % ('them', 'they')}"
    )
