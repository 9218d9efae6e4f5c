"""An hour of mixed load in half a minute: nothing is missing. And what counts as flat."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.steady.__main__ import FLAT, Sample, flatness, grown
from demo.server import ROOT


def sample(at: int, rss: float) -> Sample:
    return Sample(at * 10.0, rss, 40, 8, at * 1000, 90.0, 17.0)


def test_the_last_quarter_is_compared_with_the_second() -> None:
    samples = [sample(at, rss) for at, rss in enumerate([50, 60, 90, 90, 91, 92, 99, 101])]
    assert flatness(samples)["rss_mb"] == (90, 100)
    assert grown(samples) == ["rss_mb"]
    assert grown(samples[:4] * 2) == []


def test_a_run_that_is_too_short_is_compared_with_itself() -> None:
    assert flatness([sample(1, 70)])["rss_mb"] == (70, 70)
    assert set(flatness([sample(1, 70)])) == set(FLAT)


@pytest.mark.nightly
@pytest.mark.alone
def test_all_that_the_doors_took_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "steady.json"
    command = [sys.executable, "-m", "bench.steady", "--minutes", "0.5", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # half a minute says nothing of what grows
    found = json.loads(file.read_text())
    assert found["missing"] == 0
    assert set(found["sent"]) == {"tcp", "http", "ws", "file"}
    assert min(found["sent"].values()) > 0
