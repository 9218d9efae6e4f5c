"""What stands between a source and its sinks: nothing where nothing happens on the way."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.flows.builder import NULL, PASSED, TICKS, flow_of, pipeline, plain
from tests.lang.world import REGISTRY, assembled
from tests.nodes.world import World
from walflow import CodecUse, Connector, Recalled, Traits
from walflow.event import Node
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.fanout import DeadEnd, Fanout
from walflow.nodes.sink import SinkNode
from walflow.operators.select import Select


def linked(selects: str, *outputs: str) -> str:
    """A pipeline with more outputs; what leaves by `out` goes through another pipeline."""
    way = pipeline(f"into out, {', '.join(outputs)} pipeline {selects}")
    ways = ("ticks -> way -> last -> first", *(f"way/{name} -> second" for name in outputs))
    return flow_of(*ways, ticks=TICKS, way=way, last=PASSED, first=NULL, second=NULL)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def nodes(selects: str, world: World | None = None) -> dict[str, ConnectorNodes]:
    metrics = (world or World()).metrics
    made = build(assembled(linked(selects, "other", "err")), metrics).connectors
    return {nodes.plan.id.name: nodes for nodes in made}


def behind(port: Node) -> object:
    """The node that gets the blocks of a port that is not watched."""
    return getattr(port.accept, "__self__")  # noqa: B009  # typed as a function


def is_sink(of: dict[str, ConnectorNodes], name: str) -> Callable[[Node], bool]:
    return lambda node: node is of[name].sink


@pytest.mark.parametrize(
    "selects",
    [
        "select event from in into out;",
        "create stream x; select event from in into x; select event from x into out;",
        "select event from in where true into out;",
        "select event from in where 1 < 2 into out;",
    ],
)
def test_what_passes_all_events_costs_no_hop(selects: str) -> None:
    made = nodes(selects)
    assert behind(made["ticks"].source.ports.out) is made["first"].sink


def test_a_fan_out() -> None:
    made = nodes("select event from in into out; select event from in into other;")
    out = behind(made["ticks"].source.ports.out)
    assert isinstance(out, Fanout)
    assert [behind(target) for target in out.targets] == [made["first"].sink, made["second"].sink]


def test_selects_from_one_place_are_one_node() -> None:
    made = nodes("select event from in where event.a into out; select event.b from in into other;")
    assert isinstance(behind(made["ticks"].source.ports.out), Select)


def test_a_stream_is_one_node_for_all_that_select_into_it() -> None:
    made = nodes("""create stream x;
        select event from in into x;
        select event.b from in into x;
        select event from x where event.a into out;""")
    assert isinstance(behind(made["ticks"].source.ports.out), Select)


def test_what_nobody_selects_ends() -> None:
    out = behind(nodes("create stream x; select event from in into x;")["ticks"].source.ports.out)
    assert isinstance(out, DeadEnd)


def test_the_sinks_behind_err_stop_the_source_too() -> None:
    made = nodes("select event.a from in into out;")
    assert set(made["ticks"].source.gate.reasons) == {"main::first", "main::second"}
    assert isinstance(made["second"].sink, SinkNode)


def test_a_pipeline_without_err_logs_what_it_rejects() -> None:
    world = World()
    made = build(assembled(linked("select event.a from in into out;", "other")), world.metrics).connectors
    for each in made:
        each.sink.begin(world.context(each.name))  # which opens the gates
    ticks = next(nodes.source for nodes in made if nodes.plan.id.name == "ticks")
    outlet = ticks.begin(world.context(ticks.name))
    outlet.stream({}).emit([{"b": 1}, {"a": 2}])
    assert world.count("rejected_events_total") == 1
    assert outlet.inflight > 0  # the other one waits for its sink
    for each in made:
        each.sink.abandon()
    assert outlet.inflight == 0


class Door(Connector):
    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, recalls=("door", "key"))


WAYS = ["door -> log", "log -> null"]
ONCE = pipeline("select event from in into out;")
TWICE = pipeline("select event from in into out; select event from in into out;")


def recalling(world: World, ways: Sequence[str] = WAYS, **beside: str) -> dict[str, ConnectorNodes]:
    registry: dict[str, type[Connector]] = {**REGISTRY, "door": Door}
    text = flow_of(*ways, door="door", log=plain("wal", path="log"), null=NULL, **beside)
    made = build(assembled(text, registry=registry), world.metrics).connectors
    return {nodes.plan.id.name: nodes for nodes in made}


def test_a_source_is_told_what_its_log_has_before_it_may_send() -> None:
    world = World()
    made = recalling(world)
    door, log = made["door"], made["log"]
    out = door.source.begin(world.context("main::door"))
    log.sink.begin(world.context("main::log"))
    assert door.source.gate.shut
    assert list(log.sink.upstream.recalled_by) == ["main::door"]
    log.sink.remember("main::door", [Recalled("a", 1, 1)])
    log.sink.serve(lambda block: None)
    assert not door.source.gate.shut
    assert list(out.recalled()) == [Recalled("a", 1, 1)]
    assert list(out.recalled()) == []


def test_a_source_with_another_sink_is_told_nothing() -> None:
    """What the log has, the other one may not have got."""
    made = recalling(World(), [*WAYS, "door -> null"])
    assert made["log"].sink.upstream.recalled_by == {}


@pytest.mark.parametrize(
    ("ways", "beside"),
    [
        ([*WAYS, "door -> once -> log"], {"once": ONCE}),
        (["door -> twice -> log", "log -> null"], {"twice": TWICE}),
    ],
    ids=["two pipelines", "two selects"],
)
def test_a_source_with_two_ways_to_its_log_is_told_nothing(ways: Sequence[str], beside: Mapping[str, str]) -> None:
    """The log may have an event by one of them, and not yet by the other."""
    made = recalling(World(), ways, **beside)
    assert made["log"].sink.upstream.recalled_by == {}
