"""`walflow status` where no daemon answers. With a daemon: tests/system/test_service.py."""

import socket
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from walflow.admin.document import (
    Breaker,
    ConnectorStatus,
    FailedStatus,
    FailureStatus,
    FlowStatus,
    LaneStatus,
    LettersStatus,
    PipelineStatus,
    RequestStatus,
    Shut,
    Status,
)
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
        (
            12_000.0,
            "log will be full in 3 h 20 min at this rate; main::peer lacks 5 events, 1.2 KiB, the oldest 2 s old",
        ),
        (0.0, "log is full; main::peer lacks 5 events, 1.2 KiB, the oldest 2 s old"),
        (1e6, None),
        (None, None),
    ],
)
def test_a_log_that_fills_names_who_lacks_its_events_and_not_what_is_in_flight(
    full_in: float | None, said: str | None
) -> None:
    log: dict[str, int | float] = {"backlog_events": 5, "backlog_bytes": 1200, "oldest_seconds": 2.0}
    if full_in is not None:
        log["full_in_seconds"] = full_in
    gate = [Shut("main::away", "Connection refused"), Shut("window", "is full")]
    connector = ConnectorStatus(
        "log", "wal", "up", "", 0, {}, {}, 0, 0, gate, log=log, held_by=["main::peer holds 88 bytes"]
    )
    connector.holders = ["main::peer"]
    assert told(connector, "log will", "log is") == ([f"{said}; main::away stops it"] if said else [])


def told(
    connector: ConnectorStatus, *beginnings: str, state: Literal["running", "stopping"] = "running"
) -> list[str]:
    known = Status("0", 1, 2.0, state, True, [], 0.0, [FlowStatus("main", [connector], [], [])])
    return [str(line) for line in report(known) if str(line).startswith(beginnings)]


def test_when_a_log_is_full_is_not_said_beside_a_full_disk_and_not_in_a_drain() -> None:
    drain = [Shut("drain", "stopping"), Shut("main::away", "refused")]
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, drain, log={"full_in_seconds": 60.0})
    assert told(connector, "log will") == ["log will be full in 1 min 0 s at this rate; main::away stops it"]
    assert told(connector, "log", state="stopping") == ["log may not read: main::away: refused"]
    connector.log = {"full_in_seconds": 60.0, "disk_full": 1}
    assert told(connector, "log will") == []


AWAY = "cannot connect to 127.0.0.1:80: Connection refused"
STUCK = "`walflow status --stuck` shows them"


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            FailureStatus(AWAY, 7, 12, 48.2, 0.5, advice="nothing is lost"),
            [f"out has failed 12 times in a row for 48 s, last at position 7: {AWAY}; nothing is lost"],
        ),
        (FailureStatus("no room", 0, 1, 0.2, 0.2), ["out has failed once: no room"]),
        (
            FailureStatus("500 boom", 7, 0, 61.0, 0.5, 1, 3, 4, "skip"),
            [
                (
                    "out takes events, and has failed 1 event for 1 min 1 s, the oldest at position 3 4 times: "
                    "500 boom; skip; "
                )
                + STUCK
            ],
        ),
        (
            FailureStatus("500", 7, 0, 20.0, 9.0),
            ["out failed 9 s ago at position 7, and has taken events since: 500"],
        ),
        (FailureStatus("500", 7, 0, 0.0, 900.0), []),
    ],
)
def test_a_sink_that_fails_says_what_since_when_how_often_and_where(failure: FailureStatus, said: list[str]) -> None:
    assert told(ConnectorStatus("out", "t", "up", "", 0, {}, {}, 0, 0, [], failure=failure), "out") == said


def test_what_the_breaker_and_the_source_say_of_the_same_failure_is_one_line() -> None:
    out = ConnectorStatus("out", "t", "up", "", 0, {}, {}, 0, 0, [], Breaker("triggered", f"{AWAY} (3 in a row)"))
    out.failure = FailureStatus(AWAY, 7, 3, 5.0, 0.1, 2, 7, 3)
    log = ConnectorStatus(
        "log", "wal", "up", "", 0, {}, {}, 0, 0, [Shut("main::out", f"{AWAY} (3 in a row)")], log={}
    )
    log.failed_events, log.failed = 2, [FailedStatus("", 7, 2, "main::out", 3, 0, 1.0, AWAY)]
    known = Status("0", 1, 2.0, "running", True, [], 0.0, [FlowStatus("main", [log, out], [], [])])
    assert [str(line) for line in report(known) if str(line).startswith(("log", "out"))] == [
        "log may not read: main::out stops it",
        f"out stops its sources, has failed 3 times in a row for 5 s, last at position 7: {AWAY}; {STUCK}",
    ]


def test_requests_have_their_seconds() -> None:
    out = ConnectorStatus("out", "t", "up", "", 0, {}, {}, 0, 0, [], requests=RequestStatus(5.04, 0.2, 2.5))
    assert told(out, "out:") == ["out: 5.0 requests/s, median 200 ms, p99 2.5 s"]


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


def test_a_log_says_how_far_back_it_has_what_is_acked() -> None:
    log: dict[str, int | float] = {"backlog_events": 0, "history_bytes": 471_208, "history_seconds": 11_400.0}
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log=log)
    assert told(connector, "log keeps") == ["log keeps 460 KiB of what is acked, 3 h 10 min back"]
    connector.log = log | {"history_bytes": 0}
    assert told(connector, "log keeps") == []


def test_a_log_says_what_its_sinks_have_rejected() -> None:
    kept = [LettersStatus("db", 41_203, 12), LettersStatus("far", 1, 0)]
    connector = ConnectorStatus("log", "wal", "up", "", 0, {}, {}, 0, 0, [], log={}, letters=kept)
    assert told(connector, "log keeps") == [
        "log keeps 41,203 events that db has rejected; 12 went to it again: walflow letters",
        "log keeps 1 events that far has rejected: walflow letters",
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
