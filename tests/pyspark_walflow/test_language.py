"""The folders of tests/language on Spark: in order, and equal to what the daemon's nodes make of them, however the
input is cut into micro-batches."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_walflow.trial import run_request
from walflow.cases import find
from walflow.cases.second_host import SparkTrial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LANGUAGE = Path(__file__).parents[1] / "language"
REASONS = (
    "it is a flow:",
    "its events come by several streams,",
    "there is a log in its midst:",
    "operator ",
)


def test_the_language_in_micro_batches(spark: "SparkSession", tmp_path: Path) -> None:
    trial = SparkTrial(find([LANGUAGE]).cases)
    left_out = [one.left_out for one in trial.judged if one.left_out is not None]
    assert all(reason.startswith(REASONS) for reason in left_out)
    assert len(trial.hosted) >= 400
    seed = random.randrange(1 << 32)
    rows = run_request(spark, trial.request(seed), tmp_path)
    problems = {one.case.name: one.problems for one in trial.judgements(rows) if one.problems}
    assert not problems, f"seed {seed}"
