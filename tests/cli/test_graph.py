"""`walflow graph`: the same picture in three languages."""

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner, Result

from walflow.cli import app
from walflow.cli.graph.picture import Role, picture
from walflow.plan import load
from walflow.plan.layout import leading_back, places

ROOT = Path(__file__).parent.parent.parent
SERVER = ROOT / "flows" / "echo" / "server.troy"
SVG = "{http://www.w3.org/2000/svg}"

MERMAID = """\
flowchart LR
    subgraph flow0["server"]
        n0["tcp_server<br/>tcp_server"]
        n1[("wal<br/>wal")]
        n2["server_out<br/>file"]
        n3["stdio<br/>stdio"]
        n4(["before_gd"])
        n5(["after_gd"])
        n6(["debug"])
    end
    n0 --> n4
    n4 --> n1
    n1 --> n5
    n5 -->|"lane server_out"| n2
    n5 -->|"lane tcp_server"| n0
    n0 -.->|"err"| n6
    n6 --> n3
    linkStyle 3 stroke:#0969da
    linkStyle 4 stroke:#bf3989
    %% server::tcp_server sends to stdio and wal: while one of them is unavailable, tcp_server sends to none of them
    %% server::wal has 2 lanes: server_out; tcp_server. An unavailable sink stops only its own lane, until the log is full
    %% rejected events come to stdio: while it is unavailable, wal does not send to tcp_server either
"""  # noqa: E501  # a line of its data is one

DOT = """\
digraph walflow {
    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif"];
    subgraph cluster_0 {
        label="two \\"words\\"";
        n0 [label="ticks\\nmetronome", shape=box];
        n1 [label="end\\nnull", shape=box];
        n2 [label="way", shape=ellipse];
    }
    n0 -> n2;
    n0 -> n2 [label="err", style=dashed];
    n2 -> n1;
}
"""

FLOW = """
define flow main
flow
  use tremor::pipelines;
  define connector ticks from metronome with config = {"interval": 1} end;
  define connector end_ from null;
  create connector ticks;
  create connector `end` from end_;
  create pipeline way from pipelines::passthrough;
  connect /connector/ticks to /pipeline/way;
  connect /connector/ticks/err to /pipeline/way;
  connect /pipeline/way to /connector/`end`;
end;
deploy flow `two "words"` from main;
"""


def graph(*arguments: object) -> Result:
    return CliRunner().invoke(app(), ["graph", *map(str, arguments)])


def test_mermaid() -> None:
    result = graph(SERVER)
    assert result.output == MERMAID
    assert result.exit_code == 0


def test_dot(tmp_path: Path) -> None:
    flow = tmp_path / "main.troy"
    flow.write_text(FLOW)
    assert graph(flow, "--format", "dot").output == DOT


def test_svg_into_a_file(tmp_path: Path) -> None:
    target = tmp_path / "flow.svg"
    assert graph(SERVER, "--format", "svg", "-o", target).output == ""
    drawing = ElementTree.parse(target).getroot()
    texts = {text.text for text in drawing.iter(f"{SVG}text")}
    assert {"tcp_server", "wal", "server_out", "before_gd", "err"} <= texts
    boxes = [rect for rect in drawing.iter(f"{SVG}rect") if "box" in rect.get("class", "")]
    assert len(boxes) == 7
    for one, other in combinations(boxes, 2):
        assert _apart(one, other)
    assert len([path for path in drawing.iter(f"{SVG}path") if "arrow" in path.get("class", "")]) == 7


def _apart(one: ElementTree.Element, other: ElementTree.Element) -> bool:
    a, b = ([float(rect.get(key, "")) for key in ("x", "y", "width", "height")] for rect in (one, other))
    return a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]


LANED = """
define flow main
flow
  use tremor::pipelines;
  define connector ticks from metronome with config = {"interval": 1} end;
  define connector log from wal with config = {"path": "wal"} end;
  define connector nothing from null;
  create connector ticks;
  create connector log;
  create connector one from nothing;
  create connector two from nothing;
  create connector three from nothing;
  create pipeline before from pipelines::passthrough;
  create pipeline both from pipelines::passthrough;
  create pipeline own from pipelines::passthrough;
  connect /connector/ticks to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/both;
  connect /pipeline/both to /connector/one;
  connect /pipeline/both to /connector/two;
  connect /connector/log to /pipeline/own;
  connect /pipeline/own to /connector/three;
  connect /connector/log/err to /pipeline/own;
end;
deploy flow main;
"""


def test_an_arrow_has_a_lane_where_the_events_of_one_alone_go_along_it(tmp_path: Path) -> None:
    flow = tmp_path / "main.troy"
    flow.write_text(LANED)
    assembly, _ = load([flow])
    assert assembly is not None
    drawn = [(arrow.source.name, arrow.target.name, arrow.label, arrow.lane) for arrow in picture(assembly).arrows]
    assert drawn == [
        ("ticks", "before", "", None),
        ("before", "log", "", None),
        ("log", "both", "", None),
        ("both", "one", "lane one", 0),
        ("both", "two", "lane two", 1),
        ("log", "own", "lane three", 2),
        ("own", "three", "", 2),
        ("log", "own", "err", None),
    ]
    assert 'color="#bf3989"' in graph(flow, "--format", "dot").output


@pytest.mark.test
def test_every_flow_that_is_shipped_can_be_drawn() -> None:
    for flow in sorted((ROOT / "flows").rglob("*.troy")):
        for form in ("mermaid", "dot", "svg"):
            assert graph(flow, "--format", form).exit_code == 0, flow


def test_roles() -> None:
    assembly, _ = load([SERVER])
    assert assembly is not None
    roles = {box.node.name: box.role for box in picture(assembly).flows["server"]}
    assert roles["tcp_server"] is Role.BOTH
    assert roles["wal"] is Role.LOG
    assert roles["server_out"] is Role.SINK


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("define flow", [], 78, "main.troy:1:12: error"),
        (FLOW, ["-o", "no/such/place.svg"], 73, "walflow: --output no/such/place.svg: No such file or directory"),
        (FLOW, ["--workdir", "nowhere"], 2, "walflow: --workdir nowhere: No such file or directory"),
    ],
)
def test_what_goes_wrong_is_one_line(
    text: str, arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.troy").write_text(text)
    result = graph("main.troy", *arguments)
    assert result.exit_code == code
    assert result.output.startswith(said)


GRAPHS = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        st.just(list(range(size))),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=30),
    )
)


@given(GRAPHS)
def test_every_node_has_a_place_of_its_own_and_events_go_to_the_right(
    graph: tuple[list[int], list[tuple[int, int]]],
) -> None:
    nodes, links = graph
    placed = places(nodes, links)
    assert placed.keys() == set(nodes)
    assert len(set(placed.values())) == len(nodes)
    back = leading_back(nodes, links)
    assert all(placed[a].column < placed[b].column for a, b in links if (a, b) not in back)
    for column in {place.column for place in placed.values()}:
        rows = sorted(place.row for place in placed.values() if place.column == column)
        assert rows == list(range(len(rows)))
