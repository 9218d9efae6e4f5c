"""Which sinks of a log share a lane: the links alone decide."""

from pathlib import Path

import pytest

from connectors.memory import Memory
from connectors.null import Null
from connectors.wal import Wal
from tests.flows.builder import NULL, flow_of
from tests.lang.world import assembled
from walflow.contract import Connector
from walflow.plan.graph import Graph
from walflow.plan.lanes import lanes

KNOWN: dict[str, type[Connector]] = {"wal": Wal, "null": Null, "memory": Memory}

PIPELINE = """
  define pipeline p into out, other, err pipeline %s end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
  connect /pipeline/p/out to /connector/near;
  connect /pipeline/p/other to /connector/far;
"""
RESULTS = "p/results/out+p/results/other"  # the buffers, which ack before the sinks
ERR = " connect /pipeline/p/err to /connector/dead;"
SELECTS = "select event from in where event.a == 1 into out; select event from in into other;"


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names(body: str, more: str = "") -> list[str]:
    text = f'wal with config = {{"path": "/log"{more}}} end'
    assembly = assembled(flow_of(beside=body, log=text, near=NULL, far=NULL, dead=NULL), registry=KNOWN)
    (log,) = [plan.id for plan in assembly.connectors if plan.kind == "wal"]
    return [lane.name for lane in lanes(assembly, Graph(assembly), log)]


def through(operator: str) -> str:
    return f"""
    define operator o from {operator} end; create operator o;
    select event from in into o; select event from o into out; select event from o into other;
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SELECTS, ["near", "far"]),
        (
            (
                "define script s script let event.seen = true; event end; create script s;"
                " select event from in into s; select event from s into out; select event from s into other;"
            ),
            ["near", "far"],
        ),
        (
            (
                "define script s state 0 script let state = state + 1; event end; create script s;"
                " select event from in into s; select event from s into out; select event from s into other;"
            ),
            [RESULTS],
        ),
        (
            (
                "define window w from tumbling with size = 2 end;"
                ' select {"n": aggr::stats::count()} from in[w] into out; select event from in into other;'
            ),
            [RESULTS],
        ),
        (through("generic::batch with count = 2"), ["near+far"]),
        (through('qos::dedupe with key = "id"'), ["near+far"]),
    ],
    ids=["where", "script", "script with state", "window", "batch", "dedupe"],
)
def test_what_keeps_or_holds_makes_one_lane_of_all_behind_it(body: str, expected: list[str]) -> None:
    assert names(PIPELINE % body) == expected


def test_the_err_of_a_stem_is_a_lane_and_joins_none() -> None:
    assert names(PIPELINE % "select event.a from in into out; select event.b from in into other;" + ERR) == [
        "near",
        "far",
        "dead",
    ]


def test_one_dead_letter_sink_of_log_and_sinks_joins_none() -> None:
    dead = """
  create pipeline rejects from pipelines::passthrough;
  connect /connector/near/err to /pipeline/rejects;
  connect /connector/far/err to /pipeline/rejects;
  connect /connector/log/err to /pipeline/rejects;
  connect /pipeline/rejects to /connector/dead;
"""
    assert names(PIPELINE % SELECTS + dead) == ["near", "far"]


def test_together_there_are_none() -> None:
    assert names(PIPELINE % SELECTS, ', "lanes": "together"') == []
