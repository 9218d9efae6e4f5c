"""Settings become codecs, framings and connectors; what the seeds and `tests/lang/errors` do not show of it."""

from dataclasses import replace
from typing import ClassVar

import pytest

from tests.lang.world import REGISTRY, Null, assembled
from walflow import Traits, codecs, framing
from walflow.contract import CodecUse, Connector, Guarantee
from walflow.diagnostics import render_all
from walflow.event import Codec, Cutting
from walflow.lang.config import FlowConfig
from walflow.plan import ConnectorPlan, NodeId, PipelinePlan, PlannedSelect, load
from walflow.plan.assemble import assemble

FLOW = """
define flow main
flow
  use tremor::pipelines;
  define connector null from null{settings};
  create connector null;
  create pipeline way from pipelines::passthrough;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))


def plan(settings: str) -> ConnectorPlan:
    settings = f"\n  with {settings} end" if settings else ""
    return assembled(FLOW.format(settings=settings)).connectors[0]


WIRES: list[tuple[str, Codec, Cutting, Cutting]] = [
    ("", codecs.JSON, framing.LINES, framing.LINES),
    ('codec = "string"', codecs.STRING, framing.WHOLE, framing.WHOLE),
    ('codec = {"name": "json", "config": {"mode": "sorted"}}', codecs.JSON_SORTED, framing.WHOLE, framing.WHOLE),
    ('codec = "json", preprocessors = ["separate"]', codecs.JSON, framing.LINES, framing.WHOLE),
    ('codec = "json", postprocessors = [{"name": "separate"}]', codecs.JSON, framing.WHOLE, framing.LINES),
    ("preprocessors = []", codecs.JSON, framing.WHOLE, framing.LINES),
]


@pytest.mark.parametrize(("settings", "codec", "pre", "post"), WIRES)
def test_how_events_look_outside(settings: str, codec: Codec, pre: Cutting, post: Cutting) -> None:
    made = plan(settings)
    wires = framing.Incoming((), pre), framing.Outgoing((), post)
    assert made == ConnectorPlan(NodeId("main", "connector", "null"), "null", Null(), codec, *wires)
    assert made.codec is codec


def test_a_framing_with_a_configuration() -> None:
    separator = plan('preprocessors = [{"name": "separate", "config": {"separator": "|"}}]').preframing
    assert separator is not None
    assert separator.framing.payloads(b"a|b|") == [b"a", b"b"]


def test_a_pipeline_with_ports_of_its_own() -> None:
    assembly = assembled("""
define flow main
flow
  define pipeline split
  from in, second
  into left, right
  pipeline
    select event from in into left;
    select event from in into right;
    select event from second/in into right;
  end;
  define connector null from null;
  create connector null;
  create pipeline split;
  create pipeline second from split;
  connect /pipeline/split/left to /connector/null;
  connect /pipeline/split/right to /pipeline/second/second;
  connect /pipeline/second/right to /connector/null;
end;
deploy flow main;
""")
    selects = (PlannedSelect("in", "left"), PlannedSelect("in", "right"), PlannedSelect("second", "right"))
    found = assembly.pipelines[0]
    assert replace(found, selects=tuple(one._replace(span=None) for one in found.selects)) == PipelinePlan(
        NodeId("main", "pipeline", "split"), ("in", "second"), ("left", "right"), selects
    )
    assert [(link.source_port, link.target_port) for link in assembly.links] == [
        ("left", "in"),
        ("right", "second"),
        ("right", "in"),
    ]


def test_nothing_deployed_is_nothing_to_run() -> None:
    assembly, found = assemble(FlowConfig(()), REGISTRY)
    assert assembly is not None
    assert assembly.connectors == ()
    assert not found


class Strange(Connector):
    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL)

    def model_post_init(self, context: object) -> None:
        raise RuntimeError("surprise")

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee()


def test_a_strangers_connector_may_raise_anything() -> None:
    with open("main.troy", "w", encoding="utf-8") as file:
        file.write(FLOW.format(settings=""))
    assembly, found = load(["main.troy"], {"null": Strange})
    assert assembly is None
    assert render_all(found).splitlines() == [
        "main.troy:5:30: error: connector type null cannot check its config: RuntimeError: surprise",
        "    5 |   define connector null from null;",
        "      |                              ^^^^",
    ]


def test_a_class_named_by_its_module() -> None:
    text = FLOW.format(settings="").replace("from null;", 'from "tests.lang.world:Null";', 1)
    assert assembled(text).connectors[0].connector == Null()


def test_where_walflow_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with open("main.troy", "w", encoding="utf-8") as file:
        file.write(FLOW.format(settings=""))
    assembly, found = load(["main.troy"])
    assert assembly is None
    assert render_all(found) == "error: no connector type is registered: is walflow installed? (pip install -e .)"
