"""A replay goes into one sink, by the ways that the flow has, and into no other."""

from pathlib import Path

import pytest

from connectors.replay import Replay
from tests.flows.builder import LOG, NULL, OUT, TICKS, flow_of, pipeline, plain
from tests.lang.world import assembled as assembled_of
from walflow.errors import Misconfigured
from walflow.plan import Assembly
from walflow.plan.replay import replay_into, replayer
from walflow.registry import connectors

OTHER = plain("wal", path="other")
EVEN = pipeline("select event from in where event % 2 == 0 into out;")
COUNTED = pipeline(
    "define window all from tumbling with size = 10 end; select aggr::stats::count() from in[all] into out;"
)
HELD = pipeline(
    'define operator held from qos::wal with dir = "held", max_bytes = 1000000 end; create operator held; '
    "select event from in into held; select event from held into out;"
)
AGAIN = Replay.model_validate({"path": "state"})


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def assembled(text: str) -> Assembly:
    return assembled_of(text, registry=connectors())


def into(flow: Assembly, sink: str, path: str = "state") -> Assembly:
    return replay_into(flow, path, sink, AGAIN)


def ways(flow: Assembly) -> list[str]:
    return sorted(f"{link.source.name}/{link.source_port} -> {link.target.name}" for link in flow.links)


def test_the_replay_stands_in_the_place_of_the_log_and_nothing_else_runs() -> None:
    flow = assembled(
        flow_of("ticks -> log -> even -> out", "log -> far", "out/err -> dead",
                ticks=TICKS, log=LOG, even=EVEN, out=OUT, far=NULL, dead=NULL)
    )  # fmt: skip
    made = into(flow, "out")
    assert {plan.id.name: plan.kind for plan in made.connectors} == {"log": "replay", "out": "file"}
    assert made.connectors[0].connector is AGAIN
    assert [plan.id.name for plan in made.pipelines] == ["even"]
    assert ways(made) == ["even/out -> out", "log/out -> even"]
    assert into(flow, "main::out") == made


def test_all_ways_to_the_sink_are_taken() -> None:
    flow = assembled(
        flow_of(
            "ticks -> log -> even -> out", "log -> odd -> out", ticks=TICKS, log=LOG, even=EVEN, odd=EVEN, out=NULL
        )
    )
    assert ways(into(flow, "out")) == ["even/out -> out", "log/out -> even", "log/out -> odd", "odd/out -> out"]


def test_a_way_leads_through_what_holds_events_in_memory() -> None:
    """The results of a window, and a connector `memory`."""
    counted = assembled(flow_of("ticks -> log -> counted -> out", ticks=TICKS, log=LOG, counted=COUNTED, out=NULL))
    assert {plan.kind for plan in into(counted, "out").connectors} == {"replay", "memory", "null"}
    held = assembled(
        flow_of("ticks -> log -> mem -> out", ticks=TICKS, log=LOG, mem=plain("memory", max_elements=9), out=NULL)
    )
    assert {plan.id.name for plan in into(held, "out").connectors} == {"log", "mem", "out"}


def test_a_way_ends_at_another_log() -> None:
    flow = assembled(flow_of("ticks -> log -> other -> out", ticks=TICKS, log=LOG, other=OTHER, out=NULL))
    with pytest.raises(
        Misconfigured, match="no way leads from main::log to main::out; it gets events of main::other"
    ):
        into(flow, "out")
    assert {plan.id.name for plan in into(flow, "out", "other").connectors} == {"other", "out"}
    within = assembled(flow_of("ticks -> log -> held -> out", ticks=TICKS, log=LOG, held=HELD, out=NULL))
    with pytest.raises(Misconfigured, match="to main::out; it gets events of main::held/held"):
        into(within, "out")
    assert {plan.id.name: plan.kind for plan in into(within, "out", "held").connectors} == {
        "held/held": "replay",
        "out": "null",
    }


@pytest.mark.parametrize(
    ("sink", "path", "why"),
    [
        ("away", "state", "no sink is named away: there is main::out"),
        ("ticks", "state", "no sink is named ticks: there is main::out"),
        ("out", "nowhere", "no log of the flows is in nowhere: there is main::log in /"),
    ],
)
def test_what_is_not_in_the_flow_is_named(sink: str, path: str, why: str) -> None:
    flow = assembled(flow_of("ticks -> log -> out", ticks=TICKS, log=LOG, out=NULL))
    with pytest.raises(Misconfigured) as raised:
        into(flow, sink, path)
    assert why in str(raised.value)


def test_a_name_of_two_flows_wants_the_flow() -> None:
    one = flow_of("ticks -> log -> out", ticks=TICKS, log=LOG, out=NULL)
    two = flow_of("ticks -> log -> out", ticks=TICKS, log=OTHER, out=NULL).replace("flow main", "flow second")
    flow = assembled(one + two)
    with pytest.raises(Misconfigured, match="several sinks are named out: there is main::out, second::out"):
        into(flow, "out")
    assert [str(plan.id) for plan in into(flow, "main::out").connectors] == ["main::log", "main::out"]


def test_walflows_own_connector_has_the_role() -> None:
    assert replayer(connectors()) is Replay
