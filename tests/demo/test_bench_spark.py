"""The Spark part of the bench counts what came, and says what it has measured. No test looks at a speed."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.spark.kafka import RATIOS as BESIDE_KAFKA
from bench.spark.lines import Lines, write
from bench.spark.paced import TRIES, Try, doubled
from bench.spark.processes import cpu_seconds
from bench.spark.ratios import RATIOS, selected
from bench.spark.report import Document, markdown, read, table, write as write_json
from bench.spark.throughput import CASES, Result
from tests.system.daemon import ROOT

MACHINE: dict[str, object] = {"cpus": 2, "cpu": "a CPU", "python": "3", "spark": "4", "java": "17", "load": "0.1"}
SETTINGS: dict[str, object] = {
    "rounds": 2,
    "warm_rounds": 1,
    "batches": 4,
    "batch_mb": 50.0,
    "ratio_rows": 1000,
    "socket_seconds": 10,
    "grace": 2.0,
    "master": "local[2]",
    "heap": "4g",
}
CPU = {"mine_cpu": [1.0, 3.25, 4.0], "other_cpu": [2.0, 2.0, 2.0]}


@pytest.mark.parametrize("size", [100, 1000])
def test_lines_have_their_size_and_differ_in_every_field(size: int, tmp_path: Path) -> None:
    data = write(tmp_path / "lines", size, rows=500, files=3)

    lines = b"".join(path.read_bytes() for path in data.files).splitlines(keepends=True)
    events = [json.loads(line) for line in lines]

    assert {len(line) for line in lines} == {size}
    assert [event["id"] for event in events] == list(range(data.total))
    for name in ("user", "amount", "text"):
        assert len({event[name] for event in events}) == data.total


def test_a_line_too_short_for_its_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        Lines(60)


def test_a_broker_is_started_only_where_it_is_asked_for() -> None:
    assert selected("") == [*RATIOS]
    assert selected("", beside_kafka=True) == [*RATIOS, *BESIDE_KAFKA]
    assert selected("kafka") == [*BESIDE_KAFKA]
    assert selected("kafka: batch") == [BESIDE_KAFKA[0], BESIDE_KAFKA[2]], "with its floor"


def tried(rate: int, processed: int) -> Try:
    return Try(None, rate, rate, rate, processed, processed)


def test_the_rate_doubles_until_one_fails_twice() -> None:
    hiccups = [20_000]

    def attempt(rate: int) -> Try:
        if rate in hiccups:
            hiccups.remove(rate)
            return tried(rate, rate - 1)
        return tried(rate, min(rate, 60_000))

    rates = [one.rate for one in doubled(attempt, 10_000)]

    assert rates == [10_000, 20_000, 20_000, 40_000] + [80_000] * TRIES


def test_the_report_has_ratios_within_rounds_and_the_best_rate(tmp_path: Path) -> None:
    walflow, text = CASES[:2]
    rounds = {walflow: (1e6, 3e6), text: (2e6, 2e6)}
    document = Document(
        MACHINE,
        SETTINGS,
        cases=[
            asdict(case)
            | {"name": case.name, "rounds": [asdict(Result(rate, 2 * rate, 1.0, None, 4)) for rate in rates]}
            for case, rates in rounds.items()
        ],
        ratios=[asdict(RATIOS[1]) | {"mine_rates": [2e5, 3e5, 4e5], "other_rates": [4e5, 4e5, 4e5], **CPU}],
        socket=[asdict(one) for one in (tried(20_000, 20_000), tried(40_000, 100), tried(40_000, 7))],
    )
    file = tmp_path / "speed.json"
    file.write_text('{"cases": []}')

    write_json(file, document)
    found = markdown(read(file))

    assert json.loads(file.read_text())["cases"] == []
    assert "1.00 (0.50-1.50)" in found
    assert "1,000,000-3,000,000" in found
    assert "0.75 (0.50-1.00)" in found
    assert "3.25" in found
    assert [cell.strip() for cell in found.splitlines()[-3].split("|")[2:4]] == ["20,000", "40,000"]


def test_a_table_can_be_read_as_it_is() -> None:
    assert table(("", "n"), [("a b", "10")]) == "|     |  n |\n| --- | -: |\n| a b | 10 |"


def test_a_file_of_something_else_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    file.write_text("{}")

    done = bench("--markdown", str(file))

    assert done.returncode == 2
    assert done.stdout.splitlines() == [f"{file} has no results of python -m bench.spark"]


def test_the_cpu_of_children_counts() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)

    assert cpu_seconds(os.getpid()) - before >= 0.25, "it is told in ticks of 10 ms"


@pytest.mark.spark
def test_rows_are_counted_in_what_the_sink_has(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"

    done = bench(
        "--rounds", "1", "--warmup", "0", "--seconds", "0.02", "--only", "parquet, 100 B", "--json", str(file)
    )

    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(file.read_text())["spark"]["cases"]
    assert [case["name"] for case in cases] == [case.name for case in CASES if "parquet, 100 B" in case.name]
    assert all(one["batches"] == 4 and one["rows_per_second"] > 0 for case in cases for one in case["rounds"])
    assert bench("--markdown", str(file)).stdout.strip() in done.stdout


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"

    done = bench("--rounds", "1", "--warmup", "0", "--seconds", "0.02", "--json", str(file))

    assert done.returncode == 0, done.stdout + done.stderr
    spark = json.loads(file.read_text())["spark"]
    assert [case["name"] for case in spark["cases"]] == [case.name for case in CASES]
    assert [one["name"] for one in spark["ratios"]] == [one.name for one in RATIOS]
    assert all(rate > 0 for one in spark["ratios"] for rate in (*one["mine_rates"], *one["other_rates"]))
    assert [one["sink"] for one in spark["latency"]] == ["noop", "parquet"]
    assert all(0 < one["p50"] <= one["p99"] <= one["highest"] for one in spark["latency"])
    assert {one["partitions"] for one in spark["socket"]} == {None, 64}


def bench(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.spark", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
