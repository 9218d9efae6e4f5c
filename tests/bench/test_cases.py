"""Every row of the bench does its work and proves it, for a moment. No test looks at a speed."""

from pathlib import Path

import pytest

from bench import backlog, history, lanes
from bench.cases import CASES, CROWD, ECHO, LOOKS, Floor, Loaded, Space, Timing
from bench.doors import Asked, Followed
from bench.lines import Load
from bench.systems import FLOWS, Walflow
from walflow.disk import RealDisk

MOMENT = Timing(0, 0.2)
SYSTEMS = {case.system.name: case for case in CASES if isinstance(case, Loaded) and case.load == Load()}
OTHERS = {case.key: case for case in CASES if isinstance(case, Loaded) and case.system.name not in SYSTEMS}
EACH_PUSH = ("look-where", "look-misfits")  # of the rows that look at events; the others are nightly's


def row(case: Loaded) -> object:
    at_night = (case.table == LOOKS and case.key not in EACH_PUSH) or case.key.startswith("tap-")
    return pytest.param(case, id=case.key, marks=[pytest.mark.nightly] if at_night else [])


@pytest.mark.parametrize("case", [row(case) for case in (*SYSTEMS.values(), *OTHERS.values())])
def test_a_system_runs_and_is_verified(case: Loaded, tmp_path: Path) -> None:
    if (reason := case.absent()) is not None:
        pytest.skip(reason)
    figures = case.measure(tmp_path, MOMENT)

    assert figures["returned"] == figures["sent"] > 0
    assert figures["peak_rss_mb"] > 1


def test_lines_are_timed_one_by_one(tmp_path: Path) -> None:
    load = Load(connections=30, rate=10)
    figures = Loaded("paced", ECHO, load).measure(tmp_path, MOMENT)

    assert figures["returned"] == figures["sent"] >= 30 + 2  # a greeting each, and what was due
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["highest_us"]


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case, Floor)], ids=lambda case: case.key)
def test_a_floor_has_percentiles(case: Floor, tmp_path: Path) -> None:
    figures = case.measure(tmp_path, Timing(0, 0.05))

    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["highest_us"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case, Asked | Followed)], ids=lambda case: case.key
)
def test_a_door_is_measured(case: Asked | Followed, tmp_path: Path) -> None:
    figures = case.measure(tmp_path, MOMENT)

    assert figures["requests_per_second" if isinstance(case, Asked) else "mb_per_s"] > 0
    assert figures["peak_rss_mb"] > 1


def test_blocks_are_as_large_as_a_write(tmp_path: Path) -> None:
    case = next(case for case in CASES if isinstance(case, Space) and case.lines == 10)
    figures = case.measure(tmp_path, MOMENT)

    assert 9 < figures["events_per_record"] <= 10
    header = 48
    least = 1 + (header + figures["tag_bytes"]) / 1000
    assert least < figures["log_per_payload"] < least * 1.1


def test_a_backlog_is_recovered_and_delivered_whole(tmp_path: Path) -> None:
    (tmp_path / "restart").mkdir()
    figures = backlog.restart(tmp_path / "restart", 3_000_000)
    assert figures["backlog_mb"] >= 3

    assert backlog.recovery(tmp_path, 3_000_000)["log_mb"] > 3
    assert list(tmp_path.iterdir()) == [tmp_path / "restart"]


def test_a_log_at_the_bound_of_its_history(tmp_path: Path) -> None:
    assert all(rate > 0 for rate in history.kept(tmp_path, history.TURN).values())
    assert not list(tmp_path.iterdir())


def test_a_lane_that_was_away_catches_up(tmp_path: Path) -> None:
    if RealDisk().filesystem(str(tmp_path)) in ("tmpfs", "ramfs", "overlay"):
        pytest.skip("its files may be in memory, or have no direct I/O")
    figures = lanes.catch_up(tmp_path, 3_000_000)

    assert figures["lag_mb"] >= 3
    assert figures["direct_mb_per_s"] > 0


def test_lanes_at_eight_places_get_what_they_lack(tmp_path: Path) -> None:
    figures = lanes.eight(tmp_path, 3_000_000)

    # of so little, one lane may have all before another one has had a turn
    assert 0 <= figures["slowest_mb_per_s"] <= figures["fastest_mb_per_s"] < figures["together_mb_per_s"]


def test_every_flow_is_in_a_row() -> None:
    rows = {case.system.flow for case in CASES if isinstance(case, Loaded) and isinstance(case.system, Walflow)}

    assert {path for path in FLOWS.glob("*.troy") if path.name != "backlog.troy"} <= rows
    assert len({case.key for case in CASES}) == len(CASES)
    assert CROWD.connections == 1000
