"""`walflow status` where no daemon answers. With a daemon: tests/system/test_service.py."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.admin.document import Breaker, ConnectorStatus, FlowStatus, LaneStatus, PipelineStatus, Shut, Status
from walflow.cli import app
from walflow.cli.node_table import rows_of, total_of
from walflow.cli.status import report


@pytest.mark.parametrize("more", [[], ["--ready"]])
def test_no_daemon_there(more: list[str], tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and it does not listen
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = CliRunner().invoke(app(), ["status", "--admin", address, *more])
    where = "name a daemon's own --admin, or set WALFLOW_ADMIN"
    assert said.stderr == f"walflow: no daemon answers at {address}: Connection refused; {where}\n"
    assert said.exit_code == 69
    path = tmp_path / "admin"
    said = CliRunner().invoke(app(), ["status", "--admin", f"unix:{path}", *more])
    assert said.stderr == f"walflow: no daemon answers at unix:{path}: No such file or directory; {where}\n"


def test_what_a_pipeline_keeps_is_a_line() -> None:
    keeps: dict[str, int | float] = {
        "state_bytes": 3000,
        "window_groups": 2,
        "window_open": 1,
        "window_late_events_total": 4,
        "window_oldest_seconds": 61.2,
    }
    pipelines = [PipelineStatus("counts", [], [], keeps=keeps), PipelineStatus("plain", [], [])]
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [], pipelines, [])])
    *_, last = report(known)
    assert str(last) == "counts keeps 2.9 KiB in 1 open windows of 2 groups, the oldest 1 min 1 s old; 4 late events"


@pytest.mark.parametrize(
    ("full_in", "said"),
    [
        (12_000.0, "log will be full in 3 h 20 min at this rate; main::peer holds 1,200 bytes"),
        (0.0, "log is full; main::peer holds 1,200 bytes"),
        (1e6, None),
        (None, None),
    ],
)
def test_a_log_that_fills_names_who_holds_its_events(full_in: float | None, said: str | None) -> None:
    log: dict[str, int | float] = {"backlog_events": 5, "backlog_bytes": 1200, "oldest_seconds": 2.0}
    if full_in is not None:
        log["full_in_seconds"] = full_in
    gate = [Shut("main::away", "Connection refused"), Shut("window", "is full")]
    connector = ConnectorStatus(
        "log", "wal", "up", "", 0, {}, {}, 0, 0, gate, log=log, held_by=["main::peer holds 1,200 bytes"]
    )
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [connector], [], [])])
    lines = [str(line) for line in report(known) if str(line).startswith(("log will", "log is"))]
    assert lines == ([f"{said}; main::away stops it"] if said else [])


def test_a_lane_that_is_behind_is_named_with_the_sink_that_stops_it() -> None:
    lanes = [
        LaneStatus("near", 0, 0, []),
        LaneStatus("far", 1200, 56_000, [Shut("main::far", "Connection refused")], 200),
    ]
    log: dict[str, int | float] = {"backlog_events": 1200, "full_in_seconds": 60.0}
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log=log, lanes=lanes)
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [connector], [], [])])
    lacks = "1,200 events, 55 KiB, the oldest 3 min 20 s old"
    assert [str(line) for line in report(known) if str(line).startswith(("log will", "log does"))] == [
        f"log will be full in 1 min 0 s at this rate; main::far stops it; far lacks {lacks}",
        f"log does not send to far, which lacks {lacks}: main::far: Connection refused",
    ]


def test_a_full_log_is_called_full_whatever_its_rate_says() -> None:
    lanes = [LaneStatus("near", 0, 0, []), LaneStatus("far", 1200, 56_000, [Shut("main::far", "away")])]
    log: dict[str, int | float] = {"backlog_events": 1200, "full": 1, "full_in_seconds": 0.9}
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log=log, lanes=lanes)
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [connector], [], [])])
    assert "log is full; main::far stops it; far lacks 1,200 events, 55 KiB" in [str(line) for line in report(known)]


def sink_of(name: str) -> ConnectorStatus:
    return ConnectorStatus(name, "null", "up", "", 0, {}, {}, 0, 0, [], Breaker("triggered", "Connection refused"))


def test_a_sink_below_lanes_stops_its_own_alone() -> None:
    shut = [Shut("main::far", "Connection refused")]
    lanes = [LaneStatus("near", 0, 0, []), LaneStatus("far", 1, 56, shut)]
    log = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log={}, lanes=lanes)
    source = ConnectorStatus("source", "tcp_server", "up", "", 0, {}, {}, 0, 0, [Shut("main::near", "is full")])
    flow = FlowStatus("main", [log, source, sink_of("far"), sink_of("near")], [], [])
    lines = [str(line) for line in report(Status("0", 1, 2.0, "running", True, [], 0.0, [flow]))]
    assert "far stops its lane of log, triggered: Connection refused" in lines
    assert "near stops its sources, triggered: Connection refused" in lines
    assert "log does not send to far, which lacks 1 event, 56 B: main::far: Connection refused" in lines


@pytest.mark.parametrize(("lead", "said"), [(7200, True), (3599, False)])
def test_a_log_that_stamps_ahead_of_the_clock_says_so(lead: int, said: bool) -> None:
    log = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log={"clock_lead_seconds": lead})
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [log], [], [])])
    line = "log stamps events 2 h 0 min ahead of the clock, which was set back"
    assert (line in [str(one) for one in report(known)]) == said


def test_each_lane_has_a_row_and_counts_once_in_the_sum() -> None:
    lanes = [LaneStatus("near", 3, 100, [], 2), LaneStatus("far", 1200, 56_000, [Shut("main::far", "away")], 200)]
    held: dict[str, int | float] = {"backlog_events": 1200, "oldest_seconds": 200.0, "used_bytes": 90_000}
    log = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log=held, lanes=lanes)
    rows = rows_of(FlowStatus("main", [log], [], []))
    assert [(row.name, str(row.state), row.backlog, row.oldest, row.disk) for row in rows] == [
        ("log", "up", 1200, 200.0, 90_000),
        ("log to near", "up", 3, 2, 100),
        ("log to far", "waits", 1200, 200, 56_000),
    ]
    total = total_of(rows)
    assert (total.backlog, total.oldest, total.disk) == (1200, 200.0, 90_000)
