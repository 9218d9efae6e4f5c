"""Reachability along the links. A graph is written as its links: `a -> p -> b`, connectors by capital letters."""

from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import pytest

from walflow.contract import Connector, Guarantee, Ports, Traits
from walflow.plan import Assembly, ConnectorPlan, Link, NodeId, PipelinePlan, PlannedSelect
from walflow.plan.graph import Graph


class Both(Connector):
    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee()


class Log(Both):
    traits: ClassVar[Traits] = Both.traits._replace(transactional=True)


class Answering(Both):
    traits: ClassVar[Traits] = Both.traits._replace(answers=True)


class Sink(Both):
    ports: ClassVar[Ports] = Ports(("in",), ("err",))


def node(name: str) -> NodeId:
    return NodeId("f", "connector" if name[0].isupper() else "pipeline", name)


def graph(*chains: str) -> Graph:
    """`S -> p -> K/err`: a name of L is a log, one of K a sink with an err port, one of A gives answers alone, other
    capitals both."""
    links: list[Link] = []
    names: dict[str, None] = {}
    for chain in chains:
        ends = [part.strip().partition("/") for part in chain.split("->")]
        names |= {name: None for name, _, _ in ends}
        for (source, _, port), (target, _, _) in pairwise(ends):
            links.append(Link(node(source), port or "out", node(target), "in"))
    kinds = {"L": Log, "K": Sink, "A": Answering}
    connectors = [
        ConnectorPlan(node(name), "test", kinds.get(name[0], Both)(), None, None, None)
        for name in names
        if name[0].isupper()
    ]
    pipelines = [
        PipelinePlan(node(name), ("in",), ("out", "err"), (PlannedSelect("in", "out"),))
        for name in names
        if name[0].islower()
    ]
    return Graph(Assembly(tuple(connectors), tuple(pipelines), tuple(links)))


def names(nodes: frozenset[NodeId]) -> str:
    return " ".join(sorted(found.name for found in nodes))


SEED = ("T -> before -> L", "L -> after -> K", "after -> T", "T/err -> debug -> S")


def test_paths_end_at_connectors() -> None:
    paths = [
        " ".join([path.source.name, *(link.target.name for link in path.links)]) for path in graph(*SEED).paths()
    ]
    assert paths == ["T before L", "L after K", "L after T", "T debug S"]


@pytest.mark.parametrize(
    ("source", "sinks"),
    [("T", "L S"), ("L", "K S T"), ("K", ""), ("S", "")],
)
def test_sinks_of(source: str, sinks: str) -> None:
    assert names(graph(*SEED).sinks_of(node(source))) == sinks


@pytest.mark.parametrize(
    ("sink", "sources"),
    [("L", "T"), ("K", "L"), ("T", "L"), ("S", "L T")],
)
def test_sources_of(sink: str, sources: str) -> None:
    assert names(graph(*SEED).sources_of(node(sink))) == sources


def test_behind_a_log() -> None:
    seed = graph(*SEED)
    assert [name for name in "TLKS" if seed.behind_log(node(name))] == ["T", "K", "S"]


def test_a_log_before_what_gives_answers_sends_again_to_the_sinks_behind_it() -> None:
    assert graph("L -> a -> A", "A -> b -> S").behind_log(node("S"))
    assert graph("L -> a -> A", "A -> b -> A2", "A2 -> c -> S").behind_log(node("S"))
    assert not graph("T -> a -> A", "A -> b -> S").behind_log(node("S"))
    assert not graph("L -> a -> T", "T -> b -> S").behind_log(node("S"))
    assert not graph("A -> a -> A2", "A2 -> b -> A").behind_log(node("A"))


def test_what_a_sink_rejects_is_still_its_sources_event() -> None:
    rejecting = graph("T -> p -> K", "K/err -> q -> L", "L -> r -> M", "K/err -> s -> N")
    assert names(rejecting.sinks_of(node("T"))) == "K L N"
    assert names(rejecting.sources_of(node("N"))) == "T"  # a sink with nothing but `err` is no source
    assert not rejecting.behind_log(node("N"))


@pytest.mark.parametrize(
    ("chains", "sole"),
    [
        (["S -> p -> K"], True),
        (["S -> p -> q -> K", "T -> q"], True),
        (["S -> p -> K", "p -> q -> M"], True),
        (["S -> p -> K", "S -> q -> K"], False),
        (["S -> p -> q -> K", "p -> r -> K"], False),
        (["S -> p -> K", "S/err -> q -> K"], False),
        (["S -> p -> K", "p/err -> q -> K"], False),
        (["S -> p -> K", "K/err -> q -> K"], False),
        (["S -> p -> K", "p -> M", "M/err -> q -> K"], False),
        (["S -> p -> L", "L -> q -> K"], True),
        (["S -> p -> M"], True),
    ],
)
def test_sole_path(chains: list[str], sole: bool) -> None:
    assert graph(*chains, "Z -> z -> K").sole_path(node("S"), node("K")) is sole


def test_many_diamonds_are_walked_lazily() -> None:
    stages = [f"{a}{i} -> {b}{i + 1}" for i in range(40) for a in "pq" for b in "pq"]
    diamonds = graph("S -> p0", "S -> q0", *stages, "p40 -> K", "q40 -> K")
    paths = diamonds.paths()
    assert [len(next(paths).links) for _ in range(3)] == [42, 42, 42]
    assert names(diamonds.sinks_of(node("S"))) == "K"
    assert not diamonds.sole_path(node("S"), node("K"))


def test_a_long_chain() -> None:
    chain = graph("S -> " + " -> ".join(f"p{i}" for i in range(5000)) + " -> K")
    assert len(next(chain.paths()).links) == 5001
    assert chain.sole_path(node("S"), node("K"))


def streaming(*selects: str) -> Graph:
    """S -> p -> K, p/other -> K, p/err -> M; `a -> b` is a select within p."""
    ends = [(source, target) for source, _, target in (select.partition(" -> ") for select in selects)]
    ports = {"in", "out", "other", "err"}
    streams = tuple(sorted({name for pair in ends for name in pair} - ports))
    pipeline = PipelinePlan(
        node("p"), ("in",), ("out", "other", "err"), tuple(PlannedSelect(*pair) for pair in ends), streams
    )
    connectors = [ConnectorPlan(node(name), "test", Both(), None, None, None) for name in "SKM"]
    links = [
        Link(node("S"), "out", node("p"), "in"),
        Link(node("p"), "out", node("K"), "in"),
        Link(node("p"), "other", node("K"), "in"),
        Link(node("p"), "err", node("M"), "in"),
    ]
    return Graph(Assembly(tuple(connectors), (pipeline,), tuple(links)))


@pytest.mark.parametrize(
    ("selects", "sole", "paths"),
    [
        (["in -> x", "x -> out"], True, 2),
        (["in -> x", "x -> y", "y -> out"], True, 2),
        (["in -> x", "x -> out", "x -> out"], False, 2),
        (["in -> x", "in -> y", "x -> out", "y -> out"], False, 2),
        (["in -> x", "in -> other", "x -> out"], False, 3),
        (["in -> x", "y -> out"], True, 1),
    ],
)
def test_streams_within_a_pipeline(selects: list[str], sole: bool, paths: int) -> None:
    graph = streaming(*selects)
    assert graph.sole_path(node("S"), node("K")) is sole
    assert names(graph.sinks_of(node("S"))) == ("K M" if paths > 1 else "M")
    assert len(list(graph.paths())) == paths


class Follower(Both):
    """What sends again, and is no log."""

    def resends(self) -> bool:
        return True


def test_what_sends_again_is_a_log_to_the_sinks_behind_it() -> None:
    found = graph("T -> before -> L", "L -> after -> K")
    assert not found.behind_log(node("L"))
    plan = found.connectors[node("T")]
    found.connectors = dict(found.connectors) | {plan.id: replace(plan, connector=Follower())}
    assert found.behind_log(node("L"))
