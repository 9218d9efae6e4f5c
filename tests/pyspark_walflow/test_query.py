"""A query and the checkpoint it finds. Nothing here needs Spark; what does is tests/system/test_spark_pipeline.py."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_walflow.condense import JobRefusal
from pyspark_walflow.query import PROCESSORS, Plan, compile_job, keep_query, load_job, reading, refuse_change
from walflow.plan.second_host import load_pipeline

PLAN = Plan(
    name="main::counts",
    query="select 1 from in",
    job=None,
    output_mode="append",
    master=None,
    conf={},
    checkpoint="",
    trigger_ms=None,
    options={},
    results=True,
    scratch="",
    package="",
    report=3,
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return PLAN._replace(checkpoint=str(tmp_path / "checkpoint"))


def test_the_same_query_goes_on(plan: Plan) -> None:
    keep_query(plan)
    Path(plan.checkpoint, "state").mkdir()
    refuse_change(plan._replace(query="\n  select 1 from in\n"))  # white space around it is no change


@pytest.mark.parametrize("change", [{"query": "select 2 from in"}, {"output_mode": "update"}])
def test_another_query_does_not_go_on_with_the_windows_of_the_first(plan: Plan, change: dict[str, Any]) -> None:
    keep_query(plan)
    Path(plan.checkpoint, "state").mkdir()
    kept = Path(plan.checkpoint, "query.sql")
    with pytest.raises(JobRefusal, match="holds windows and counts of another query") as refused:
        refuse_change(plan._replace(**change))
    assert f"`rm {kept}`" in refused.value.hint
    refuse_change(plan)  # it was put back
    kept.unlink()
    refuse_change(plan._replace(**change))  # somebody who knows said so


FLOW = """
define pipeline p
pipeline
  define window few from tumbling with size = 3 end;
  select aggr::stats::count() from in[few] where event.x > %d group by event.host into out;
end;
"""


def packed(directory: Path, least: int, buckets: int = 8) -> str:
    file = directory / "flow.troy"
    file.write_text(FLOW % least)
    shipped, found = load_pipeline(file, "p", {}, buckets)
    assert shipped is not None, found
    return base64.b64encode(shipped.packed()).decode()


def test_a_changed_pipeline_does_not_go_on_with_the_windows_of_the_old_one(plan: Plan, tmp_path: Path) -> None:
    plan = plan._replace(query=None, pipeline=packed(tmp_path, 1))
    keep_query(plan)
    refuse_change(plan._replace(pipeline=packed(tmp_path, 2)))  # there are no windows yet
    Path(plan.checkpoint, "state").mkdir()
    refuse_change(plan._replace(pipeline=packed(tmp_path, 1)))
    for changed in (packed(tmp_path, 2), packed(tmp_path, 1, buckets=4)):
        with pytest.raises(
            JobRefusal, match="holds windows and `state` of this pipeline before it was changed"
        ) as refused:
            refuse_change(plan._replace(pipeline=changed))
        assert "put back the pipeline, its args and `buckets`, or name another `checkpoint`" in refused.value.hint


def test_where_nothing_is_remembered_any_query_may_go_on(plan: Plan) -> None:
    keep_query(plan)
    changed = plan._replace(query="select 2 from in")
    refuse_change(changed)
    keep_query(changed)
    assert "select 2" in Path(plan.checkpoint, "query.sql").read_text()


def test_tasks_are_tried_again_by_default() -> None:
    assert PLAN.chosen_master == f"local[{PROCESSORS},4]"
    assert PLAN.local
    assert PLAN._replace(conf={"spark.master": "spark://there:7077"}).chosen_master == "spark://there:7077"
    assert not PLAN._replace(master="yarn").local


@pytest.mark.parametrize(
    ("conf", "options", "cap"),
    [
        ({}, {}, "6"),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, {}, "12"),
        ({"spark.executor.instances": "3"}, {}, "6"),
        ({"spark.cores.max": "16"}, {"numPartitions": "auto"}, "16"),
        ({"spark.cores.max": "a"}, {}, "6"),
        ({"spark.cores.max": "16"}, {"maxpartitions": "2"}, None),
        ({}, {"minPartitions": "50"}, None),
    ],
)
def test_a_batch_has_at_most_as_many_tasks_as_the_executors_have_cores(
    conf: dict[str, str], options: dict[str, str], cap: str | None
) -> None:
    assert reading(PLAN._replace(conf=conf, options=options), 6) == options | ({"maxPartitions": cap} if cap else {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the job"),
        ("def pipeline(\n", "job.py:1: SyntaxError"),
        ("x = '\0'\n", "job.py: (SyntaxError|ValueError): source code string cannot contain null bytes"),
    ],
)
def test_a_job_that_is_none_is_refused_before_a_session_is_made(tmp_path: Path, text: str | None, said: str) -> None:
    job = tmp_path / "job.py"
    if text is not None:
        job.write_text(text)
    with pytest.raises(JobRefusal, match=said):
        compile_job(str(job))


def test_a_job_needs_its_function(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("pipelines = 1\n")
    with pytest.raises(JobRefusal, match="defines no function `pipeline`"):
        load_job(str(tmp_path / "job.py"))


def test_a_job_finds_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_job.py").write_text("ROWS = 'rows'\n")
    (tmp_path / "job.py").write_text(
        "from beside_the_job import ROWS\n\ndef pipeline(spark, stream):\n    return ROWS\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_job(str(tmp_path / "job.py"))(None, None) == "rows"  # type: ignore[arg-type]
