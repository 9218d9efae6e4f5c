"""The folders of tests/language on Spark: in order, and equal to what the daemon's nodes make of them, however the input is
cut into micro-batches."""

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
NOT_HOSTED = {
    "flows/args_from_deploy_to_select",
    "flows/errors_linked_on",
    "flows/passthrough",
    "flows/two_pipelines_in_a_row",
    "metadata/goes_on_with_the_event",
    "operator/batch",
    "operator/dedupe",
    "operator/log",
    "operator/passthrough",
    "operator/round_robin",
    "operator/stamp",
}


def test_the_language_in_micro_batches(spark: "SparkSession", tmp_path: Path) -> None:
    trial = SparkTrial(find([LANGUAGE]).cases)
    left_out = {one.case.name for one in trial.judged if one.left_out is not None}
    assert {name for name in left_out if not name.startswith("state/")} == NOT_HOSTED
    seed = random.randrange(1 << 32)
    rows = run_request(spark, trial.request(seed), tmp_path)
    problems = {one.case.name: one.problems for one in trial.judgements(rows) if one.problems}
    assert not problems, f"seed {seed}"
