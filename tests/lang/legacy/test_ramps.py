"""Onramps and offramps of tremor 0.11, run."""

import json
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.system.daemon import WALFLOW, Client, running
from walflow.diagnostics import render_all
from walflow.plan import Assembly, load

FILES = """
onramp:
  - id: numbers
    type: file
    config: {source: in.json, close_on_done: true}
offramp:
  - id: copy
    type: file
    postprocessors: [base64]
    config: {file: out.b64}
  - id: noise
    type: stderr
    codec: string
binding:
  - id: all
    links:
      /onramp/numbers/{instance}/out:
        - /pipeline/big/{instance}/in
        - /pipeline/system::passthrough/{instance}/in
      /pipeline/big/{instance}/out: ["/offramp/copy/{instance}/in"]
      /pipeline/big/{instance}/small: ["/offramp/noise/{instance}/in"]
      /pipeline/system::passthrough/{instance}/out: ["/offramp/system::stdout/system/in"]
mapping:
  /binding/all/01: {instance: "01"}
"""
QUERY = """
select event from in where event.n > 1 into out;
select "few" from in where event.n <= 1 into out/small;
"""


def test_a_file_is_copied_and_then_the_daemon_ends(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n":1}\n{"n":2}\n{"n":3}\n')
    (tmp_path / "files.yml").write_text(FILES)
    (tmp_path / "big.trickle").write_text(QUERY)
    files = [str(tmp_path / "big.trickle")]
    with running(tmp_path / "files.yml", tmp_path, command=[*WALFLOW, "run", *files]) as daemon:
        assert daemon.wait() == 0, daemon.raw
    assert (tmp_path / "out.b64").read_text() == "eyJuIjoyfQ==\neyJuIjozfQ==\n"
    assert sorted(b"".join(daemon.stdout).splitlines()) == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
    assert "few" in daemon.raw


LISTENERS = """
onramp:
  - id: echo
    type: tcp
    linked: true
    preprocessors: [lines-pipe]
    postprocessors: [lines]
    config: {host: 127.0.0.1, port: 0}
binding:
  - id: echo
    links:
      "/onramp/{what}/{instance}/out": ["/pipeline/system::passthrough/{instance}/in"]
      "/pipeline/system::passthrough/{instance}/out": ["/onramp/{what}/{instance}/in"]
mapping:
  /binding/echo/01: {what: echo, instance: "01"}
"""


def test_a_linked_onramp_answers(tmp_path: Path) -> None:
    (tmp_path / "echo.yaml").write_text(LISTENERS)
    with running(tmp_path / "echo.yaml", tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'{"a": 1}|{"b": 2}|')
        client.socket.settimeout(100)
        received = b""
        while received.count(b"\n") < 2:
            received += client.socket.recv(100)
        client.close()
        assert received == b'{"a": 1}\n{"b": 2}\n'
        assert daemon.terminate() == 0


def test_messages_of_a_websocket_stop_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "ws.yaml").write_text(
        """
onramp: [{id: ws, type: ws, config: {host: 127.0.0.1, port: 0}}]
offramp: [{id: stop, type: exit}]
binding:
  - id: a
    links:
      /onramp/ws/{instance}/out: ["/pipeline/system::passthrough/{instance}/in"]
      /pipeline/system::passthrough/{instance}/out: ["/offramp/stop/{instance}/in", "/offramp/system::stdout/{instance}/in"]
mapping:
  /binding/a/b: {instance: "b"}
"""  # noqa: E501  # a line of its data is one
    )
    with running(tmp_path / "ws.yaml", tmp_path) as daemon:
        with connect(f"ws://127.0.0.1:{daemon.port()}/") as peer:
            peer.send(json.dumps({"good": "bye"}))
            assert daemon.wait() == 0
    assert b"".join(daemon.stdout) == b'{"good": "bye"}\n'


def loaded(text: str) -> tuple[Assembly | None, str]:
    Path("flow.yaml").write_text(text)
    assembly, diagnostics = load(["flow.yaml"])
    return assembly, render_all(diagnostics)


INSTANCES = """
onramp:
  - &beat
    id: m
    type: metronome
    config: &config {interval: 1000}
  - {<<: *beat, id: ws, config: {<<: *config, interval: 10}}
offramp:
  - {id: ws, type: ws, config: {url: "ws://localhost:1/"}}
binding:
  - id: one
    links:
      /onramp/m/{instance}/out: ["/pipeline/system::passthrough/{pipe}/in"]
      tremor://localhost/onramp/ws/{instance}/out: ["/pipeline/system::passthrough/{pipe}/in"]
      /pipeline/system::passthrough/{pipe}/out: ["/offramp/ws/{instance}/in"]
mapping:
  /binding/one/01: {instance: "01", pipe: a}
  /binding/one/02: {instance: "02", pipe: b}
  /binding/one/03: {instance: "03", pipe: a}
"""


def test_mappings_that_share_an_instance_are_one_flow_and_others_are_not() -> None:
    assembly, said = loaded(INSTANCES)
    assert assembly is not None, said
    assert "error" not in said
    nodes = sorted(str(plan.id) for plan in assembly.connectors)
    assert nodes == [
        *("one/01::m/01", "one/01::m/03"),
        *("one/01::offramp/ws/01", "one/01::offramp/ws/03", "one/01::onramp/ws/01", "one/01::onramp/ws/03"),
        *("one/02::m", "one/02::offramp/ws", "one/02::onramp/ws"),
    ]
    assert sorted(str(plan.id) for plan in assembly.pipelines) == [
        "one/01::system::passthrough",
        "one/02::system::passthrough",
    ]
    assert len(assembly.links) == 9


@pytest.mark.parametrize(
    ("ramp", "codec", "before", "behind"),
    [
        ("onramp: {type: stdin}", "string", "separate", "separate"),
        ("onramp: {type: udp, config: {host: localhost, port: 1}}", "string", "messages", "messages"),
        ("onramp: {type: tcp, config: {host: '::1', port: 1}}", "json", "separate", "separate"),
        ("onramp: {type: file, config: {source: x}}", "json", "separate", None),
        ("offramp: {type: stdout}", "json", None, "separate"),
        ("offramp: {type: ws, config: {url: 'ws://localhost'}}", "json", "messages", "messages"),
    ],
)
def test_what_is_left_unsaid(ramp: str, codec: str, before: str | None, behind: str | None) -> None:
    kind, _, rest = ramp.partition(": {")
    ends = (f"/{kind}/x/i/out", "/pipeline/system::passthrough/i/in")
    ends = ends if kind == "onramp" else (ends[1].replace("/in", "/out"), f"/{kind}/x/i/in")
    onward = ", /pipeline/system::passthrough/i/out: [/offramp/system::stdout/system/in]" if kind == "onramp" else ""
    assembly, said = loaded(
        f"{kind}: [{{id: x, {rest}]\nbinding: [{{id: b, links: {{'{ends[0]}': ['{ends[1]}']{onward}}}}}]\n"
        "mapping: {/binding/b/c: }\n"
    )
    assert assembly is not None, said
    (plan,) = (one for one in assembly.connectors if "stdout" not in str(one.id))
    assert plan.codec is not None
    assert plan.codec.name == codec
    if before and plan.preframing:
        assert plan.preframing.framing.name == before
    if behind and plan.postframing:
        assert plan.postframing.framing.name == behind


TROY = """
define flow ours
flow
  define connector m from metronome with config = {"interval": 1} end;
  define connector n from null;
  define pipeline p pipeline select event from in into out end;
  create connector m; create connector n; create pipeline p;
  connect /connector/m to /pipeline/p; connect /pipeline/p to /connector/n;
end;
deploy flow ours;
"""


@pytest.mark.parametrize("order", [1, -1])
def test_files_of_both_kinds_run_together(order: int) -> None:
    Path("main.troy").write_text(TROY)
    Path("m.yaml").write_text(INSTANCES)
    assembly, diagnostics = load(["main.troy", "m.yaml"][::order])
    assert assembly is not None, render_all(diagnostics)
    assert {plan.id.flow for plan in assembly.connectors} == {"ours", "one/01", "one/02"}


def test_a_mistake_in_a_query_is_shown_at_its_place() -> None:
    Path("q.trickle").write_text(
        "define qos::wal operator w with max_elements = 1 end\nselect event form in into out;\n"
    )
    assembly, diagnostics = load(["q.trickle"])
    assert assembly is None
    assert render_all(diagnostics).splitlines()[0].startswith("q.trickle:2:1: error: expected")
