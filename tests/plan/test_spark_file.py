"""`--spark-config FILE`: settings for all pipelines on Spark. What a pipeline sets itself counts before them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plan.test_on_spark import ON_SPARK, WHERE, _at_home, logs, written  # noqa: F401  # _at_home is a fixture
from walflow.cli.promises import promises
from walflow.diagnostics import render_all
from walflow.plan import Assembly, load
from walflow.plan.on_spark import Engine

OWN = '#!config spark = {"partitions": 3, "conf": {"spark.a": "own"}}\n'


def loaded(
    settings: str, directives: str = ON_SPARK, engine: Engine | None = None, name: str = "spark.yaml"
) -> tuple[Assembly | None, str]:
    Path(name).write_text(settings)
    Path("flow.troy").write_text(written(WHERE, directives))
    assembly, found = load(["flow.troy"], engine=engine, spark_config=Path(name))
    return assembly, render_all(found)


def connector(assembly: Assembly | None) -> dict[str, object]:
    assert assembly is not None
    [found] = [plan.connector for plan in assembly.connectors if plan.kind == "spark"]
    return found.model_dump()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("spark.yaml", 'master: local[1]\npartitions: 2\nconf:\n  spark.a: "1"\n'),
        ("spark.json", '{"master": "local[1]", "partitions": 2, "conf": {"spark.a": "1"}}'),
    ],
)
@pytest.mark.parametrize(("directives", "engine"), [(ON_SPARK, None), ("", "spark")])
def test_it_counts_for_each_pipeline_on_spark(name: str, text: str, directives: str, engine: Engine | None) -> None:
    assembly, said = loaded(text, directives, engine, name)
    assert said == ""
    given = connector(assembly)
    assert (given["master"], given["options"], given["conf"]) == (
        "local[1]",
        {"numPartitions": "2"},
        {"spark.a": "1"},
    )


def test_what_the_pipeline_sets_counts_before_it() -> None:
    text = 'partitions: 2\nmaster: local[1]\nconf: {spark.a: "1", spark.b: "2"}\n'
    assembly, said = loaded(text, ON_SPARK + OWN)
    assert said == ""
    given = connector(assembly)
    assert (given["master"], given["options"]) == ("local[1]", {"numPartitions": "3"})
    assert given["conf"] == {"spark.a": "own", "spark.b": "2"}


def test_check_tells_where_each_setting_is_written_and_no_value_of_conf() -> None:
    text = 'partitions: 2\nmaster: local[1]\nconf:\n  spark.password: "hunter2"\n'
    assembly, _ = loaded(text, ON_SPARK + OWN)
    assert assembly is not None
    [told] = [note for note in promises(assembly).notes if "set for Spark" in note]
    assert told == (
        "main::p/spark: set for Spark: partitions = 3 at flow.troy:8:33; master = local[1] at spark.yaml:2:9; "
        "conf.spark.password at spark.yaml:4:19; conf.spark.a at flow.troy:8:56"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partition: 2", "spark.yaml:1:1: error: unknown key `partition` in the config of spark"),
        ("master: local[1]\npartitions: 0", "spark.yaml:2:13: error: `partitions` must be at least 1, not 0"),
        ("conf:\n  spark.a: 1", "spark.yaml:2:12: error: `spark.a` takes a string, not a whole number"),
        ("- partitions", "spark.yaml:1:1: error: a file of Spark's settings is a record, not an array"),
        ("partitions: [", "spark.yaml:1:"),
        ("partitions: 2\npartitions: 3", "spark.yaml:2:1: error: key `partitions` stands twice here"),
    ],
)
@pytest.mark.parametrize("directives", [ON_SPARK, ON_SPARK + OWN, ""])
def test_what_is_wrong_with_the_file_is_said_once_at_its_place(text: str, said: str, directives: str) -> None:
    assembly, found = loaded(text, directives)
    assert assembly is None
    assert found.startswith(said)
    assert found.count("error:") == 1


def test_a_mistake_in_the_pipeline_has_its_own_place() -> None:
    assembly, said = loaded("partitions: 2", f'{ON_SPARK}#!config spark = {{"buckets": 0}}\n')
    assert assembly is None
    assert said.startswith("flow.troy:8:30: error: `buckets` must be at least 1, not 0")


def test_a_file_that_is_empty_and_one_that_is_not_there() -> None:
    assert logs(loaded("# nothing\n")[0]) == ["main::p/spark"]
    Path("flow.troy").write_text(written(WHERE, ON_SPARK))
    assembly, found = load(["flow.troy"], spark_config=Path("none.yaml"))
    assert assembly is None
    assert render_all(found) == "error: cannot read none.yaml: no such file or directory"


def test_toml_is_refused() -> None:
    assembly, said = loaded("partitions = 2", name="spark.toml")
    assert assembly is None
    assert "error: spark.toml: TOML is not read here\n      = write it as YAML or JSON" in said


def test_no_pipeline_on_spark_is_a_warning() -> None:
    assembly, said = loaded("partitions: 2", "")
    assert assembly is not None
    assert said.startswith("spark.yaml:1:1: warning: these settings have no effect: no pipeline runs on Spark")


@pytest.mark.parametrize(
    ("settings", "what"), [("dir: there", "log directory `"), ("checkpoint: there", "checkpoint `there`")]
)
def test_two_pipelines_cannot_have_one_directory(settings: str, what: str) -> None:
    Path("spark.yaml").write_text(settings)
    text = written(WHERE, ON_SPARK)
    Path("flow.troy").write_text(text)
    Path("other.troy").write_text(text.replace("main", "other"))
    assembly, found = load(["flow.troy", "other.troy"], spark_config=Path("spark.yaml"))
    assert assembly is None
    assert f"have the same {what}" in render_all(found)


@pytest.mark.test
@pytest.mark.parametrize("command", ["check", "run"])
def test_the_commands_take_it_from_where_they_are_started(command: str) -> None:
    """And not from --workdir, as flow files."""
    Path("work").mkdir()
    Path("spark.yaml").write_text("partitions: none\n")
    Path("flow.troy").write_text(written(WHERE, ON_SPARK))
    words = [
        sys.executable,
        "-m",
        "walflow",
        command,
        "flow.troy",
        "--spark-config",
        "spark.yaml",
        "--workdir",
        "work",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 78
    assert "../spark.yaml:1:13: error: `partitions` takes a whole number, not a string" in done.stdout + done.stderr
