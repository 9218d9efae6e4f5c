"""`walflow check --running`: a file beside what runs."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from demo.server import ROOT
from tests.flows.builder import NULL, PASSED, flow_of, pipeline, plain
from tests.system.daemon import WALFLOW, running
from walflow.admin.document import ConnectorStatus, FlowStatus, PipelineStatus, Status
from walflow.admin.nodes import nodes_of, running as running_document
from walflow.cli.restart_changes import AfterRestart, RunningNow, changes
from walflow.plan import Assembly, load
from walflow.plan.fingerprint import described

FLOW = flow_of(
    "ticks -> before -> log -> after -> out",
    ticks=plain("metronome", interval=1_000_000_000),
    log=plain("wal", path="state"),
    out=NULL,
    before=PASSED,
    after=pipeline("select event from in where event.id > 1 into out;"),
)

MORE = """
create connector out;
define connector more from null;
create connector more;
define pipeline p pipeline select event from in into out; end;
create pipeline p;
connect /connector/log to /pipeline/p;
connect /pipeline/p to /connector/more;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(text: str) -> Assembly:
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, found = load(["main.troy"])
    assert assembly is not None, found
    return assembly


def now(text: str, backlog: int = 0) -> RunningNow:
    """As a daemon that was started with this text answers, with so many events in its log."""
    log = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log={"backlog_events": backlog})
    flows = [FlowStatus("main", [log], [], [])]
    return RunningNow(running_document(planned(text)), Status("", 1, 1.0, "running", True, [], 0.0, flows))


def difference(before: str, after: str, backlog: int = 0) -> list[AfterRestart]:
    found = now(before, backlog)
    return changes(found, planned(after))


@pytest.mark.parametrize(
    "after",
    [
        "# a comment\n\n" + FLOW,
        FLOW.replace("  ", "\t"),
        FLOW.replace("where event.id > 1", "where # late\n event.id > 1"),
    ],
    ids=["comment", "blanks", "comment within"],
)
def test_layout_and_comments_are_no_difference(after: str) -> None:
    assert [one for one in difference(FLOW, after) if one.what != "log"] == []


@pytest.mark.parametrize(
    ("old", "new", "what", "subject", "words"),
    [
        ("1000000000", "2000000000", "changed", "connector main::ticks", "its configuration"),
        ("event.id > 1", "event.id > 2", "changed", "pipeline main::after", "what it does"),
        ("out from null", "out from exit", "changed", "connector main::out", "type null becomes exit"),
        (
            "create connector out;",
            MORE,
            "new",
            "connector main::more",
            "type null",
        ),
    ],
)
def test_a_difference(old: str, new: str, what: str, subject: str, words: str) -> None:
    assert old in FLOW
    found = [one for one in difference(FLOW, FLOW.replace(old, new)) if one.what != "log"]
    assert found[0] == AfterRestart(what, subject, words)


def test_what_is_gone_and_its_links() -> None:
    more = FLOW.replace(
        "create connector out;",
        "create connector out; define connector more from null; create connector more;",
    ).replace("end;\ndeploy", "connect /pipeline/after/err to /connector/more;\nend;\ndeploy")
    assert [one for one in difference(more, FLOW) if one.what != "log"] == [
        AfterRestart("gone", "connector main::more", "type null"),
        AfterRestart("gone", "link main::after/err to main::more/in", ""),
    ]


def test_what_becomes_of_a_log(tmp_path: Path) -> None:
    state = tmp_path / "state"
    kept = AfterRestart(
        "log",
        "connector main::log",
        f"continues in {state}: 7 events wait, and are delivered after the restart",
        stays=True,
    )
    assert difference(FLOW, FLOW, 7) == [kept]
    one = f"continues in {state}: 1 event waits, and is delivered after the restart"
    assert difference(FLOW, FLOW, 1) == [kept._replace(words=one)]
    assert difference(FLOW, FLOW.replace('"state"', '"other"'), 7)[1:] == [
        AfterRestart(
            "log",
            "connector main::log",
            f"is not opened again: 7 events stay in {state}, and no sink gets them",
            loses="main::log",
        ),
        AfterRestart("log", "connector main::log", f"begins a new log in {tmp_path / 'other'}"),
    ]
    renamed = FLOW.replace("connector log", "connector spool").replace("/connector/log", "/connector/spool")
    takes_over = AfterRestart("log", "connector main::log", f"connector main::spool takes over {state}, with 1 event")
    assert [one for one in difference(FLOW, renamed, 1) if one.what == "log"] == [takes_over]


def test_a_sink_that_moves_to_another_log_is_told_what_it_loses() -> None:
    after = FLOW.replace("create connector log;", "create connector log; create connector log2;").replace(
        "define connector out",
        'define connector log2 from wal with config = {"path": "state2"} end; define connector out',
    )
    after = after.replace(
        "/pipeline/before to /connector/log;",
        "/pipeline/before to /connector/log2;",
    ).replace("/connector/log to /pipeline/after", "/connector/log2 to /pipeline/after")
    words = "main::out is not behind it any more: it does not get what waits there"
    assert AfterRestart("log", "connector main::log", words, loses="main::out") in difference(FLOW, after, 5)
    assert AfterRestart("log", "connector main::log", words) in difference(FLOW, after, 0)


def test_a_sink_with_another_name_is_told_how_it_goes_on(tmp_path: Path) -> None:
    renamed = FLOW.replace("connector out", "connector archive").replace("/connector/out", "/connector/archive")
    words = (
        "main::out is not behind it any more: it does not get what waits there. If it is main::archive now, "
        f"`walflow wal rename {tmp_path / 'state'} out archive`, while walflow is stopped, lets it go on where it was"
    )
    assert AfterRestart("log", "connector main::log", words, loses="main::out") in difference(FLOW, renamed, 5)


def test_a_log_elsewhere_is_a_difference() -> None:
    found = difference(FLOW, FLOW.replace('"state"', '"other"'), 7)
    assert [one.stays for one in found if one.what == "log"] == [False, False]


@pytest.mark.parametrize(
    ("keeps", "said"),
    [
        ({"state_bytes": 2048}, ["2.0 KiB of `state`: it begins anew"]),
        ({"state_bytes": 2048, "window_open": 3}, ["2.0 KiB in 3 open windows: it begins anew"]),
        ({"state_bytes": 0, "window_open": 0}, []),
        (None, []),
    ],
)
def test_what_is_kept_in_memory_is_said_to_end(keeps: dict[str, int | float] | None, said: list[str]) -> None:
    """Also if nothing differs, and then it is no difference."""
    found = now(FLOW)
    found.status.flows[0].pipelines.append(PipelineStatus("after", ["in"], ["out"], keeps=keeps))
    kept = [one for one in changes(found, planned(FLOW)) if one.what == "gone"]
    assert [(one.subject, one.words, one.stays) for one in kept] == [("pipeline main::after", s, True) for s in said]


def test_every_shipped_flow_can_be_asked_of_its_daemon() -> None:
    for flow in sorted((ROOT / "flows").rglob("*.troy")):
        assembly, found = load([flow])
        assert assembly is not None, found
        assert len(nodes_of(assembly)) == len(assembly.connectors) + len(assembly.pipelines)


def test_a_constant_in_a_pipeline_can_be_told() -> None:
    text = FLOW.replace("select event from", 'select {"a": [1, 2], "b": {"c": 1}} from')
    assert [one for one in difference(text, text) if one.what != "log"] == []


def test_a_secret_that_was_renewed_is_no_difference() -> None:
    text = FLOW.replace("from null", "from http_client").replace(
        "out from http_client",
        'out from http_client with config = {"url": "http://127.0.0.1:1", "token": secret("t")} end',
    )

    def fingerprints(token: str) -> list[str]:
        Path("t").write_text(token)
        Path("main.troy").write_text(text)
        assembly, found = load(["main.troy"], reads_secrets=True)
        assert assembly is not None, found
        return [node.fingerprint for node in described(replace(assembly))]

    assert fingerprints("one") == fingerprints("two")


def test_a_running_daemon_is_asked_and_says_on_sighup_that_its_file_has_changed(tmp_path: Path) -> None:
    flow = tmp_path / "main.troy"
    flow.write_text(FLOW)
    admin = f"unix:{tmp_path}/admin"

    def check() -> tuple[int, list[str]]:
        command = [*WALFLOW, "check", "--running", "--admin", admin, "main.troy"]
        found = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        return found.returncode, found.stdout.splitlines()

    with running(flow, tmp_path, admin=admin) as daemon:
        daemon.wait_for("ready")
        code, lines = check()
        assert (code, lines[-1]) == (0, "the daemon runs what these files say")
        flow.write_text(FLOW.replace("event.id > 1", "event.id > 2"))
        code, lines = check()
        assert code == 1
        assert lines[-3] == "changed: pipeline main::after: what it does"
        assert lines[-1] == "a restart applies this"
        daemon.process.send_signal(1)
        said = daemon.wait_for("flow file has changed since the start")
        assert said["advice"] == "`walflow reload` applies it; with `--dry-run` it shows what that changes"
        assert daemon.terminate() == 0


def test_no_daemon_answers(tmp_path: Path) -> None:
    Path("main.troy").write_text(FLOW)
    command = [*WALFLOW, "check", "--running", "--admin", f"unix:{tmp_path}/gone", "main.troy"]
    found = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert found.returncode == 69
    assert "no daemon answers" in found.stderr
