"""Pipelines on an executor that has the bundle, pyarrow and nothing else: the folders of tests/language have the same
answers there as in the daemon, but for those that need a C extension, and these are refused by its name."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pyspark_walflow import bundle
from walflow.cases import find
from walflow.cases.second_host import SparkTrial

pytest.importorskip("pyarrow")

HERE = Path(__file__).parent
LANGUAGE = HERE.parent / "language"


@cache
def trial() -> SparkTrial:
    return SparkTrial(find([LANGUAGE]).cases)


def run_bare(trial: SparkTrial, directory: Path) -> subprocess.CompletedProcess[str]:
    request = directory / "request.json"
    request.write_text(json.dumps(trial.request(seed=1)))
    bundle.write(directory)
    command = [sys.executable, "-I", str(HERE / "bare.py"), str(directory), str(request)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory, timeout=120)


@pytest.mark.nightly
def test_the_language_by_the_standard_library(tmp_path: Path) -> None:
    bare = SparkTrial([one.case for one in trial().hosted if not needs(one.shipped.needs)])
    assert len(bare.hosted) >= 370
    done = run_bare(bare, tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    problems = {one.case.name: one.problems for one in bare.judgements(rows) if one.problems}
    assert not problems


def test_what_needs_a_c_extension_is_refused_by_its_name(tmp_path: Path) -> None:
    for one in trial().hosted:
        names = needs(one.shipped.needs)
        if names:
            folder = tmp_path / one.case.name.replace("/", "_")
            folder.mkdir()
            done = run_bare(SparkTrial([one.case]), folder)
            assert done.returncode == 1
            assert f"pipeline test::pipeline needs {', '.join(names)} on each executor" in done.stderr


def needs(found: tuple[tuple[str, str], ...]) -> list[str]:
    return [distribution for _, distribution in found if distribution != "tzdata"]
