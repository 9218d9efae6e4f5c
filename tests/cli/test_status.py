"""`walflow status` where no daemon answers. With a daemon: tests/system/test_service.py."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.admin.document import ConnectorStatus, FlowStatus, LaneStatus, PipelineStatus, Shut, Status
from walflow.cli import app
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
    lanes = [LaneStatus("near", 0, 0, []), LaneStatus("far", 1200, 56_000, [Shut("main::far", "Connection refused")])]
    log: dict[str, int | float] = {"backlog_events": 1200, "full_in_seconds": 60.0}
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log=log, lanes=lanes)
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [connector], [], [])])
    assert [str(line) for line in report(known) if str(line).startswith(("log will", "log does"))] == [
        "log will be full in 1 min 0 s at this rate; main::far stops it; far lacks 1,200 events",
        "log does not send to far, which lacks 1,200 events, 56,000 bytes: main::far: Connection refused",
    ]
