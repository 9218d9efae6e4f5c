"""A given file of results, and what is said of it. No test looks at a speed."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from bench import document, report
from bench.cases import CASES, LATENCY, LINES, RECOVERY, RESTART, SPACE, TAPS
from bench.document import Document, Row
from bench.goals import GOALS, outcomes
from bench.spark import ratios, throughput
from bench.spark.paced import Try
from bench.spark.report import Document as Spark
from tests.system.daemon import ROOT

MACHINE: dict[str, object] = {
    "cpus": 2,
    "cpu": "a CPU",
    "kernel": "6.1",
    "python": "3.11.7",
    "load": 0.1,
    "redis": "Redis 7",
}


def loaded(rate: float, cpu: float) -> dict[str, float]:
    half = {"half_p50_us": 900.4, "half_p99_us": 4_000.0, "half_p999_us": 9_000.0, "written_per_byte": 1.3}
    return {"events_per_second": rate, "cpu_us_per_event": cpu, "peak_rss_mb": 70.4, "generator_share": 0.125} | half


def timed(p50: float) -> dict[str, float]:
    return {"p50_us": p50, "p99_us": 2 * p50, "highest_us": 9 * p50}


RESULTS = Document(
    MACHINE,
    {"rounds": 2, "seconds": 3, "warmup": 1},
    [
        Row("echo", "walflow: echo", LINES, rounds=[loaded(3e6, 0.3), loaded(2e6, 0.5)]),
        Row("plain", "walflow without its wal", LINES, "without wal", rounds=[loaded(6e6, 0.2), loaded(5e6, 0.2)]),
        Row("rsyslog-disk", "rsyslog", LINES, "rsyslog disk", rounds=[loaded(1e5, 10.0), loaded(1e5, 10.0)]),
        Row("redis-1", "Redis", LINES, "Redis", missing="no redis-server: `make redis`"),
        Row(
            "latency-echo", "walflow at 1,000 lines/s", LATENCY, rounds=[timed(400) | {"cpu_share": 0.2}, timed(500)]
        ),
        Row("floor", "fdatasync", LATENCY, rounds=[timed(200), timed(200)]),
        Row(
            "space-small",
            "blocks of 10 lines",
            SPACE,
            rounds=[{"log_per_payload": 1.1449, "payload_per_record": 1000.0, "tag_bytes": 92.0}],
        ),
        Row(
            "recovery",
            "a log of 500 MB",
            RECOVERY,
            rounds=[{"recovery_mb_per_s": 4000.0, "dd_mb_per_s": 8000.0, "cksum_mb_per_s": 6000.0}],
        ),
        *(
            Row(
                f"restart-{name}",
                f"{name} backlog",
                RESTART,
                rounds=[{"ready_s": 0.55, "ready_rss_mb": 70.0, "peak_rss_mb": rss, "delivered_mb_per_s": 900.0}],
            )
            for name, rss in (("small", 80.0), ("large", 82.0))
        ),
    ],
    asdict(
        Spark(
            {"spark": "4.3.0", "java": "17", "python": "3.11.7", "cpus": 2, "cpu": "a CPU", "load": 0.1},
            {
                "master": "local[2]",
                "heap": "4g",
                "batches": 4,
                "batch_mb": 30,
                "rounds": 1,
                "warm_rounds": 1,
                "grace": 2,
            }
            | {"socket_seconds": 7.5},
            cases=[
                {"name": "walflow, noop, 100 B"}
                | {"rounds": [asdict(throughput.Result(1_000_000.0, 2_000_000.0, 1.0, 0.1, 4))]}
            ],
            socket=[
                asdict(Try(None, 50_000, 49_000.0, 10, 10, 5)),
                asdict(Try(None, 100_000, 99_000.0, 20, 11, 5)),
            ],
        )
    ),
)


def cells(text: str, beginning: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {beginning}"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_goals_are_medians_of_ratios_within_rounds() -> None:
    found = {one.goal.figure.partition(" ÷")[0] + "|" + one.verdict: one.values for one in outcomes(RESULTS)}

    assert found["events/s|aim"] == [30, 20]  # the same round's, not the median's
    assert found["CPU per event|good"] == pytest.approx([0.03, 0.05])
    assert found["echo p50 at 1,000 events/s|missed"] == [2, 2.5]
    assert found["recovery, MB/s|good"] == [0.5]
    assert found["peak RSS, 10 GB of backlog|aim"] == [1.025]
    assert found["log bytes|missed"] == [1.1449]
    assert found["rows/s into Spark (noop)|aim"] == [pytest.approx(1_000_000 / 49_000)]
    assert found["events/s|not measured"] == []


def test_every_goal_is_about_rows_that_there_are() -> None:
    everything = dict.fromkeys(("events_per_second", "cpu_us_per_event", "p50_us", "log_per_payload"), 1.0)
    everything |= dict.fromkeys(
        ("recovery_mb_per_s", "dd_mb_per_s", "peak_rss_mb", "requests_per_second", "mb_per_s"), 1.0
    )
    everything |= dict.fromkeys(
        ("caught_up_mb_per_s", "direct_mb_per_s", "slowest_mb_per_s", "fastest_mb_per_s"), 1.0
    )
    everything |= dict.fromkeys(("kept_mb_per_s", "acked_mb_per_s", "growing_mb_per_s", "cpu_ms"), 1.0)
    rows = [Row(case.key, case.name, case.table, case.baseline, rounds=[everything]) for case in CASES]

    of_spark = {
        "cases": [{"name": case.name, "rounds": [{"rows_per_second": 1.0}]} for case in throughput.CASES],
        "socket": RESULTS.spark["socket"],
        "ratios": [
            {"name": one.name, "mine_rates": [1.0], "other_rates": [1.0]}
            for one in ratios.selected("", beside_kafka=True)
        ],
    }
    found = outcomes(replace(RESULTS, cases=rows, spark=of_spark))
    assert [one.goal.figure for one in found if one.verdict == "not measured"] == []
    assert len({goal.figure for goal in GOALS}) == len(GOALS)


def test_markdown_has_a_row_for_everything() -> None:
    text = report.markdown(RESULTS)

    assert "`python -m bench --rounds 2 --seconds 3`: medians of 2 rounds" in text
    assert "Python 3.11.7, Redis 7." in text
    assert cells(text, "walflow: echo") == [
        *("walflow: echo", "2,500,000", "2,000,000-3,000,000"),
        *("900", "4,000", "9,000"),
        *("0.40", "1.30", "70", "12%"),
    ]
    assert cells(text, "Redis")[:2] == ["Redis", "none"]
    assert "Redis: no redis-server: `make redis`" in text
    assert cells(text, "walflow at")[1:] == ["450", "900", "4,050", "20%"]
    assert cells(text, "fdatasync")[1:] == ["200", "400", "1,800"]  # and no CPU
    assert cells(text, "blocks of 10 lines")[1:] == ["1.1449", "1,000", "92"]
    assert cells(text, "large backlog")[1:] == ["0.55", "70", "82", "900"]
    ratios = text[text.index("events/s ÷  ") :]
    assert cells("| " + ratios, "walflow: echo")[1:] == ["0.45 (0.4-0.5)", "25 (20-30)"]


def test_each_table_of_the_cases_is_shown() -> None:
    """Red before: the tables of looks and of taps were measured, and no report had them."""
    figures = loaded(1e6, 0.5) | timed(400)
    for column in (one for columns in report.COLUMNS.values() for one in columns):
        figures.setdefault(column.name, 1.0)
    rows = [Row(case.key, case.name, case.table, case.baseline, rounds=[figures]) for case in CASES]
    shown = {
        cell for one in report.sections(replace(RESULTS, cases=rows)) for cells in one.rows for cell in cells[:1]
    }
    assert {row.name for row in rows} <= shown


def test_a_tap_is_compared_with_none() -> None:
    rates = {"tap-without": [4e6, 5e6], "tap": [3.8e6, 5e6], "tap-where": [3.6e6, 4.5e6], "tap-unread": [4e6, 4.5e6]}
    taps = [case for case in CASES if case.table == TAPS]
    assert [case.key for case in taps] == list(rates)
    rows = [
        Row(one.key, one.name, one.table, one.baseline, rounds=[loaded(rate, 0.2) for rate in rates[one.key]])
        for one in taps
    ]
    text = report.markdown(replace(RESULTS, cases=rows))
    ratios = text[text.index("Ratios within each round") :]
    assert "| no tap" in " ".join(ratios.split())
    assert cells(ratios, "walflow without its wal: echo, a tap of its source")[1] == "0.975 (0.95-1)"


def test_a_terminal_shows_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=200, highlight=False)
    for part in report.terminal(RESULTS):
        console.print(part)

    shown = " ".join(capsys.readouterr().out.replace("|", " ").split())
    for row in report.markdown(RESULTS).splitlines():
        if row.startswith("| ") and "---" not in row:
            assert " ".join(row.replace("|", " ").split()) in shown


def test_a_file_of_results_is_read_as_it_was_written_and_keeps_sparks(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"spark": RESULTS.spark, "cases": "of an older run"}))
    document.write(file, RESULTS)

    assert document.read(file) == RESULTS
    document.write(file, RESULTS)
    assert document.read(file) == RESULTS


def bench(*options: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_prints_a_file_and_puts_it_into_a_page(tmp_path: Path) -> None:
    file, page = tmp_path / "bench.json", tmp_path / "speed.md"
    document.write(file, RESULTS)
    page.write_text(f"# Speed\n\n{report.BEGIN}\nold\n{report.END}\n\n## More\n")

    printed = bench("--markdown", file)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "| walflow: echo " in printed.stdout
    assert bench("--markdown", file, "--into", page).returncode == 0
    assert page.read_text() == f"# Speed\n\n{report.BEGIN}\n{printed.stdout}{report.END}\n\n## More\n"


def test_what_is_no_file_of_results_is_refused(tmp_path: Path) -> None:
    file, page = tmp_path / "bench.json", tmp_path / "speed.md"
    file.write_text('{"cases": []}')
    refused = bench("--markdown", file)
    assert (refused.returncode, refused.stdout) == (2, f"{file} has no results of python -m bench\n")

    document.write(file, RESULTS)
    page.write_text("# Speed\n")
    refused = bench("--markdown", file, "--into", page)
    assert (refused.returncode, page.read_text()) == (2, "# Speed\n")
    assert "there is no <!-- rows: begin -->" in refused.stdout
