"""Ports that are watched: what a watcher sees, and that the flow does not notice."""

from pathlib import Path

import pytest

from tests.flows.builder import NULL, PASSED, TICKS, flow_of, pipeline
from tests.lang.world import assembled
from tests.nodes.world import World
from walflow import Block, Frames, Receipt, StreamId
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.nodes.build import Nodes, build
from walflow.nodes.ports import PortCounts, PortName

HALVE = pipeline("select 1 / event from in into out;")
FLOW = flow_of("ticks -> first -> halve -> gone", ticks=TICKS, first=PASSED, halve=HALVE, gone=NULL)


class Seen:
    def __init__(self) -> None:
        self.events: list[tuple[str, bytes]] = []

    def see(self, port: PortName, block: Block) -> None:
        self.events.append((str(port), block.frames.data))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    monkeypatch.chdir(tmp_path)
    made = build(assembled(FLOW), (world := World()).metrics)
    for each in made.connectors:
        each.sink.begin(world.context(each.name))
        each.sink.serve(each.sink.ack)
    return made


def send(nodes: Nodes, *events: bytes, position: int | None = None) -> list[Receipt]:
    settled: list[Receipt] = []
    ticks = next(each for each in nodes.connectors if each.plan.id.name == "ticks")
    frames = Frames(LINES.join(events), len(events), LINES)
    positions = None if position is None else range(position, position + len(events))
    receipt = Receipt(settled.append, len(events))
    ticks.source.ports.out.accept(
        Block(StreamId("main::ticks", 1, 7), frames, JSON, receipt, ingest_ns=5, meta={}, positions=positions)
    )
    return settled


def test_all_ports_of_all_nodes(nodes: Nodes) -> None:
    assert [str(name) for name in nodes.ports.names] == [
        "main/first/in",
        "main/first/out",
        "main/gone/in",
        "main/halve/err",
        "main/halve/in",
        "main/halve/out",
        "main/ticks/err",
        "main/ticks/out",
    ]


@pytest.mark.parametrize(
    ("place", "ports"),
    [
        ("main/first", ["main/first/in", "main/first/out"]),
        ("main/first/out", ["main/first/out"]),
        ("main/fir", []),
        ("main/first/o", []),
        ("", []),
    ],
)
def test_a_place_is_a_flow_a_node_or_a_port(nodes: Nodes, place: str, ports: list[str]) -> None:
    assert [str(name) for name in nodes.ports.within(place)] == ports


def test_a_watcher_sees_what_passes_and_it_arrives(nodes: Nodes) -> None:
    seen = Seen()
    nodes.ports.watch(seen, nodes.ports.within("main/first") + nodes.ports.within("main/gone/in"))
    assert len(send(nodes, b"1", b"2")) == 1
    assert seen.events == [
        ("main/first/in", b"1\n2\n"),
        ("main/first/out", b"1\n2\n"),
        ("main/gone/in", b"1.0\n0.5\n"),
    ]


def test_a_port_is_watched_although_the_port_before_it_is_not(nodes: Nodes) -> None:
    seen = Seen()
    nodes.ports.watch(seen, nodes.ports.within("main/halve/in"))
    send(nodes, b"1")
    assert seen.events == [("main/halve/in", b"1\n")]


def test_after_the_watch_nothing_is_between(nodes: Nodes) -> None:
    ticks = next(each for each in nodes.connectors if each.plan.id.name == "ticks")
    before = ticks.source.ports.out.accept
    first, second = Seen(), PortCounts()
    nodes.ports.watch(first, nodes.ports.names)
    nodes.ports.watch(second, nodes.ports.names)
    assert ticks.source.ports.out.accept != before
    send(nodes, b"1")
    nodes.ports.unwatch(first)
    send(nodes, b"1")
    nodes.ports.unwatch(second)
    send(nodes, b"1")
    assert ticks.source.ports.out.accept == before
    assert len(first.events) == 6
    assert set(second.events.values()) == {2}


def test_an_err_port_that_is_not_linked_can_be_watched(nodes: Nodes) -> None:
    seen = Seen()
    nodes.ports.watch(seen, nodes.ports.within("main/halve/err"))
    assert len(send(nodes, b"0", b"1", position=40)) == 1
    [(port, data)] = seen.events
    assert port == "main/halve/err"
    error = JSON.decode(data)
    assert isinstance(error, dict)
    assert (error["error"], error["event"], error["source"]) == ("division by zero", 0, "main::halve")


def test_the_last_rejections_are_kept(nodes: Nodes) -> None:
    for position in range(30):
        send(nodes, b"1", b"0", position=2 * position)
    assert len(nodes.ports.rejections) == 20
    last = nodes.ports.rejections[-1]
    assert (last.node, last.reason, last.events, last.position, last.ingest_ns) == (
        "main::halve",
        "division by zero",
        1,
        59,
        5,
    )
    assert last.at is not None
