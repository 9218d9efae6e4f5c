"""Tests of the whole on the installed Spark, run again on older ones: an engine, a pipeline over data, a writer."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pyspark_walflow.sparks import ROOT, RUN, environment

pytestmark = [pytest.mark.nightly, pytest.mark.spark]

AGAIN = (
    "tests/system/test_spark_engine.py",
    "tests/system/test_spark_windows.py",
    "tests/pyspark_walflow/test_over_data.py",
    "tests/pyspark_walflow/test_writer.py",
)
NEWER = "not all_types"  # Spark 4.0 has no type TIME


@pytest.mark.parametrize("version", sorted({version for version, _ in RUN if version}))
@pytest.mark.timeout(900)
def test_an_older_spark(tmp_path: Path, version: str) -> None:
    """Warnings are no errors there: pyspark's own, of files that it leaves open, were mended later."""
    options = ["-q", "-W", "default", "-p", "no:cacheprovider", "-k", NEWER, f"--basetemp={tmp_path / 'again'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *AGAIN],
        env=environment(version),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert " passed" in done.stdout
