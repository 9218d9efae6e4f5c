"""The flows the product is made from run as printed; of 002 the page lost lines, which were put back."""

from pathlib import Path

import pytest

from tests.lang.world import File, Log, Stdio, TcpServer, checked
from walflow import codecs, framing
from walflow.plan.graph import Graph

SEEDS = Path(__file__).parent / "seeds"

WARNINGS = [
    "warning: pipeline `gd` is created, never linked",
    "warning: flow `client` declares nothing",
]
LINKS = """
server::tcp_server/out -> server::before_gd/in
server::before_gd/out -> server::wal/in
server::wal/out -> server::after_gd/in
server::tcp_server/err -> server::debug/in
server::after_gd/out -> server::server_out/in
server::after_gd/out -> server::tcp_server/in
server::debug/out -> server::stdio/in
""".strip()


@pytest.mark.parametrize("seed", ["000", "002"])
def test_the_seed_is_a_checked_graph(seed: str) -> None:
    assembly, said = checked(SEEDS / f"{seed}.troy")
    assert assembly is not None
    assert [line.partition(": ")[2] for line in said.splitlines() if "warning" in line] == WARNINGS
    plans = {plan.id.name: plan for plan in assembly.connectors}
    assert {name: plan.connector for name, plan in plans.items()} == {
        "tcp_server": TcpServer(url="0.0.0.0:65535", buf_size=1024),
        "wal": Log(path="server_state", chunk_size=1024, max_chunks=100),
        "server_out": File(path="server_out.log", mode="truncate"),
        "stdio": Stdio(),
    }
    assert plans["tcp_server"].codec is codecs.JSON
    assert plans["tcp_server"].preframing == framing.Incoming((), framing.LINES)
    assert plans["tcp_server"].postframing == framing.Outgoing((), framing.LINES)
    assert plans["server_out"].codec is codecs.JSON_SORTED
    assert plans["stdio"].codec is codecs.STRING
    assert (plans["wal"].codec, plans["wal"].preframing, plans["wal"].postframing) == (None, None, None)
    links = [f"{link.source}/{link.source_port} -> {link.target}/{link.target_port}" for link in assembly.links]
    assert "\n".join(links) == LINKS


def test_what_the_seed_promises_rests_on_its_log() -> None:
    assembly, _ = checked(SEEDS / "000.troy")
    assert assembly is not None
    graph = Graph(assembly)
    behind = {node.name for node in graph.connectors if graph.behind_log(node)}
    # stdio as well: what tcp_server refuses to echo leaves by its err port
    assert behind == {"server_out", "tcp_server", "stdio"}
