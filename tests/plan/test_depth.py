"""Chains as long as `check` takes them run, and longer ones are an error with its place."""

from pathlib import Path

import pytest

from tests.lang.world import REGISTRY
from tests.nodes.world import World
from tests.operators.flows import KNOWN
from walflow import Block
from walflow.diagnostics import render
from walflow.nodes.build import build
from walflow.plan import Assembly, load

BODIES = {
    "passthrough": (1, "select event from in into out;"),
    "where": (1, "select event from in where event.id >= 0 into out;"),
    "dedupe": (3, ('define operator o from qos::dedupe with key = "id" end; create operator o;'
               " select event from in into o; select event from o into out;")),
    "batch": (3, ("define operator o from generic::batch with count = 1 end; create operator o;"
              " select event from in into o; select event from o into out;")),
    "turns": (3, ('define operator o from qos::roundrobin with outputs = ["out"] end; create operator o;'
              " select event from in into o; select event from o into out;")),
}  # fmt: skip


def chain(length: int, body: str) -> str:
    creates = "".join(f"create pipeline p{n} from p;\n" for n in range(length))
    connects = "".join(f"connect /pipeline/p{n} to /pipeline/p{n + 1};\n" for n in range(length - 1))
    return f"""define flow main flow
define pipeline p pipeline {body} end;
define connector ticks from metronome with config = {{"interval": 1}} end;
define connector null from null;
create connector ticks; create connector null;
{creates}connect /connector/ticks to /pipeline/p0;
{connects}connect /pipeline/p{length - 1} to /connector/null;
end; deploy flow main;"""


def loaded(text: str) -> tuple[Assembly | None, list[str]]:
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, found = load(["main.troy"], {**REGISTRY, **KNOWN})
    return assembly, [render(one) for one in found if one.severity == "error"]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", BODIES)
def test_the_longest_that_is_taken_runs(name: str) -> None:
    each, body = BODIES[name]
    assembly, said = loaded(chain(64 // each, body))
    assert assembly is not None, said
    world = World()
    nodes = build(assembly, world.metrics)
    for operator in nodes.operators:
        operator.node.begin(world.scheduler)
    ticks, null = nodes.connectors
    taken: list[Block] = []
    null.sink.begin(world.context("main::null"))

    def accept(block: Block) -> None:
        taken.append(block)
        null.sink.ack(block)  # the way back lies within the way there

    null.sink.serve(accept)
    outlet = ticks.source.begin(world.context("main::ticks"))
    outlet.stream({}).emit([{"id": 1}])
    world.scheduler.run()
    assert len(taken) == 1
    assert outlet.inflight == 0


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("length", [140, pytest.param(1000, marks=pytest.mark.nightly)])
def test_a_longer_one_is_an_error_with_its_place(name: str, length: int) -> None:
    each, body = BODIES[name]
    assembly, (said,) = loaded(chain(length, body))
    assert assembly is None
    first, link, *_ = said.splitlines()
    depth = each * (64 // each + 1)
    assert first.endswith(f": error: more than 64 pipelines and operators in a row: here it is {depth}")
    assert link.endswith(f"connect /pipeline/p{64 // each} to /pipeline/p{64 // each + 1};")
