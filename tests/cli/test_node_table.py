"""The table of `walflow status` and `walflow top`, of documents as a daemon writes them."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from walflow.admin.document import (
    Breaker,
    ConnectorStatus,
    FlowStatus,
    LinkStatus,
    PipelineStatus,
    Shut,
    Status,
)
from walflow.cli.figures import age, count, duration, rate, short_size, size
from walflow.cli.node_table import SORTS, NodeRow, all_rows, rows_of, table_of, total_of


def connector(name: str, **more: object) -> ConnectorStatus:
    of = ConnectorStatus(name, "t", "up", "", 0, {"received": 0.0, "acked": 0.0}, {}, 0, 0, [])
    for key, value in more.items():
        setattr(of, key, value)
    return of


BUSY = FlowStatus(
    "main",
    [
        connector("in", rates={"received": 1_234_567.0, "acked": 0.0}, inflight_bytes=8, window_bytes=8),
        connector(
            "log",
            rates={"received": 99_999.0, "acked": 1_234_567.0},
            events={"rejected": 99_999, "failed": 9999},
            log={"backlog_events": 12_345_678, "oldest_seconds": 7200, "used_bytes": 999 << 30},
            inner=True,
            gate=[Shut("main::out", "away")],
        ),
        connector("out_of_everything_that_has_a_long_name", state="restarting", rates={"acked": 3.25}),
        connector("stuck", breaker=Breaker("triggered", "away"), rates={"acked": 0.0}),
    ],
    [PipelineStatus("way", ["in"], ["out"], {"rejected": 12}, {"window_open": 345})],
    [
        LinkStatus("in", "out", "way", "in"),
        LinkStatus("way", "out", "log", "in"),
        LinkStatus("log", "out", "out_of_everything_that_has_a_long_name", "in"),
        LinkStatus("log", "out", "stuck", "in"),
    ],
)


def printed(rows: Sequence[NodeRow], width: int = 80) -> list[str]:
    told = io.StringIO()
    Console(file=told, width=width).print(table_of(rows))
    return [line.rstrip() for line in told.getvalue().splitlines()]


def test_the_busiest_table_fits_in_80_columns() -> None:
    rows = rows_of(BUSY, pipelines=True)
    lines = printed([*rows, total_of(rows)])
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    assert lines[1].split() == ["in", "up", "1.2M", "100%"]
    assert lines[2].split() == [*("log", "waits", "99,999", "1.2M", "99,999", "9,999"), *("12M", "2h", "999G")]


def test_a_half_that_is_not_linked_has_no_rate() -> None:
    by_name = {row.name: row for row in rows_of(BUSY)}
    assert (by_name["in"].read, by_name["in"].acked) == (1_234_567.0, None)
    assert (by_name["stuck"].read, by_name["stuck"].acked) == (None, 0.0)
    assert str(by_name["stuck"].state) == "breaker"


def test_the_totals_count_an_event_once() -> None:
    total = total_of(rows_of(BUSY, pipelines=True))
    assert (total.read, total.acked, total.rejected, total.backlog) == (1_234_567.0, 3.25, 100_011, 12_345_678)
    assert total_of([]) == total_of(rows_of(FlowStatus("empty", [], [], [])))


@pytest.mark.parametrize(("sort", "first"), [("rate", "in"), ("lag", "log"), ("backlog", "log"), ("rejected", "log")])
def test_what_comes_first(sort: str, first: str) -> None:
    assert min(rows_of(BUSY), key=SORTS[sort]).name == first


def test_of_several_flows_a_row_names_its_flow() -> None:
    def names(*flows: FlowStatus) -> list[str]:
        return [row.name for row in all_rows(Status("1", 1, 1.0, "running", True, [], 0.0, list(flows)))]

    small = FlowStatus("small", [connector("a")], [], [])
    assert names(small) == ["a"]
    assert names(small, FlowStatus("other", [connector("a")], [], [])) == ["small/a", "other/a"]


@pytest.mark.parametrize(
    ("number", "counted", "sized"),
    [
        (0, "0", "0B"),
        (999, "999", "999B"),
        (1000, "1,000", "1.0K"),
        (99_999, "99,999", "98K"),
        (100_000, "100k", "98K"),
        (1_234_567, "1.2M", "1.2M"),
        (999_999_999_999, "1,000G", "931G"),
        (2**50, "1,125,900G", "1024T"),
    ],
)
def test_figures_are_short(number: int, counted: str, sized: str) -> None:
    assert (count(number), short_size(number)) == (counted, sized)


def test_more_figures() -> None:
    assert [rate(None), rate(0.0), rate(3.25), rate(12.5)] == ["", "0", "3.2", "12"]
    assert [age(5), age(119), age(7200), age(200_000)] == ["5s", "2m", "2h", "2d"]
    assert [duration(59), duration(61), duration(7260), duration(200_000)] == [
        "59 s",
        "1 min 1 s",
        "2 h 1 min",
        "2 d 7 h",
    ]
    assert [size(1023), size(1024), size(20 << 20)] == ["1023 B", "1.0 KiB", "20 MiB"]
