"""What is missing or wrong on the way to Spark: one line that says what to type, and exit code 78."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_walflow.requirement import PACKAGES
from tests.flows.builder import flow_of, json_only, plain
from tests.system.daemon import ROOT, WALFLOW, Daemon, running
from tests.system.warm import ran

QUERY = '"query": "select value from in"'
CARET = " " * len("select value from in whre ") + "^^^"  # under what Spark did not expect
SYSTEM_PYTHON = "/usr/bin/python3"
SPARK = " ".join(f"'{package}'" for package in PACKAGES)


def flow(directory: Path, settings: str) -> Path:
    file = directory / "main.troy"
    file.write_text(
        flow_of(
            "ticks -> spark -> file",
            ticks=plain("metronome", interval=1_000_000_000),
            spark=f'spark with config = {{"path": "state", "url": "127.0.0.1:0", {settings}}} end',
            file=json_only("file", path="out", mode="append"),
        )
    )
    return file


def refused(file: Path, environment: Mapping[str, str] | None = None) -> str:
    with running(file, file.parent, environment=environment) as daemon:
        error = str(daemon.wait_for("fatal")["error"])
        assert daemon.wait() == 78
    assert not any("Traceback" in line for line in daemon.raw)
    return error


def checked(file: Path, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    done = ran(
        [*WALFLOW, "check", "--spark", str(file), "--workdir", str(file.parent)],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("conf", "line"),
    [
        ('"spark.driver.memory": "lots"', "Spark's JVM does not start: Invalid maximum heap size: -Xmxlots"),
        ('"spark.executor.memory": "lots"', "Spark's JVM does not start: Executor memory must be a positive number"),
        (
            '"spark.sql.shuffle.partitions": "many"',
            (
                "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'many' in the config "
                '"spark.sql.shuffle.partitions" is invalid.'
            ),
        ),
    ],
)
def test_a_setting_of_spark_is_wrong(tmp_path: Path, conf: str, line: str) -> None:
    said = refused(flow(tmp_path, f'{QUERY}, "conf": {{{conf}}}'))
    assert line in said
    assert said.endswith("it stands in `conf` or `master` of the connector, or in Spark's own spark-defaults.conf")


def without_java(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""}


def test_without_java(tmp_path: Path) -> None:
    file, environment = flow(tmp_path, QUERY), without_java(tmp_path)
    said = refused(file, environment)
    assert said.startswith("main::spark: Spark needs Java 17 or newer and there is none on PATH: ")
    assert "apt-get install openjdk-17-jre-headless" in said
    code, report = checked(file, environment)
    assert code == 78
    assert "apt-get install openjdk-17-jre-headless" in report
    assert "Traceback" not in report


def test_a_java_home_that_leads_nowhere(tmp_path: Path) -> None:
    said = refused(flow(tmp_path, QUERY), {"JAVA_HOME": "/opt/no-java"})
    assert "there is no /opt/no-java/bin/java, where JAVA_HOME points" in said


@pytest.mark.skipif(not os.access(SYSTEM_PYTHON, os.X_OK), reason=f"no {SYSTEM_PYTHON}")
@pytest.mark.spark
def test_an_interpreter_without_pyspark(tmp_path: Path) -> None:
    file = flow(tmp_path, f'{QUERY}, "python": "{SYSTEM_PYTHON}"')
    advice = f"{SYSTEM_PYTHON} has no pyspark: {SYSTEM_PYTHON} -m pip install {SPARK}"
    assert refused(file) == f"main::spark: {advice}"
    assert advice in checked(file)[1]


@pytest.mark.spark
def test_a_spark_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "old" / "pyspark").mkdir(parents=True)
    (tmp_path / "old" / "pyspark" / "__init__.py").write_text('__version__ = "3.5.1"\n')
    said = refused(flow(tmp_path, QUERY), {"PYTHONPATH": f"{tmp_path / 'old'}:{ROOT}"})
    assert said == (
        f"main::spark: pyspark 3.5.1 is too old, walflow needs 4.0 or newer: {sys.executable} -m pip install {SPARK}"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the job job.py: No such file or directory"),
        ("def pipeline(spark, stream)\n  return 1\n", "job.py:1: SyntaxError: expected ':' (job.py, line 1)"),
    ],
)
def test_a_job_that_cannot_be_loaded(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "job.py").write_text(text)
    assert refused(flow(tmp_path, '"job": "job.py"')) == f"main::spark: {said}"


@pytest.mark.spark
def test_a_query_that_does_not_parse(tmp_path: Path) -> None:
    file = flow(tmp_path, '"query": "select value from in whre x"')
    code, report = checked(file)
    assert code == 78
    *above, line = file.read_text().partition('"select value')[0].split("\n")
    place = f"main.troy:{len(above) + 1}:{len(line) + 1}"
    assert f"{place}: error: connector `main::spark`: [PARSE_SYNTAX_ERROR] Syntax error at or near" in report
    assert f"      = | select value from in whre x\n      = | {CARET}\n" in report
    with running(file, tmp_path) as daemon:
        error = str(daemon.wait_for("fatal")["error"])
        assert daemon.wait() == 78
    assert error.startswith("main::spark: [PARSE_SYNTAX_ERROR] Syntax error at or near")
    assert [str(line["event"]) for line in daemon.lines if str(line["event"]).startswith("|")] == [
        "| select value from in whre x",
        f"| {CARET}",
    ]
    assert not any("Traceback" in line or "\tat " in line for line in daemon.raw)


def failure(daemon: Daemon, words: str) -> dict[str, object]:
    """The line whose error has these words. On a loaded machine Spark gives up on its own Pythons before, and is
    started again; a first batch may have been done, and then the daemon goes on."""
    while True:
        line = daemon.wait_for_one_of(
            "spark starting", "spark session", "spark running", "spark starts again", "spark failed", "fatal"
        )
        if words in str(line.get("error")):
            return line


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_an_event_that_does_not_fit_is_in_no_line(tmp_path: Path) -> None:
    """What the metronome sends is no number."""
    file = flow(tmp_path, '"query": "select cast(value as int) as n from in"')
    with running(file, tmp_path) as daemon:
        failed = failure(daemon, "CAST_INVALID_INPUT")
    assert failed["error"] == (
        "[CAST_INVALID_INPUT] an event does not fit the query; the text may hold an event and is left out"
    )
    assert failed["hint"] == "--log-level debug shows all that Spark said"
    assert any("cast(value as int)" in str(line["event"]) for line in daemon.lines), "the query is shown"
    assert not [line for line in daemon.raw if "ingest_ns" in line], "what an event held"


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_job_with_two_queries_on_one_consumer(tmp_path: Path) -> None:
    """They would take events from each other, whichever comes first after each start."""
    (tmp_path / "job.py").write_text(
        "def pipeline(spark, stream):\n"
        "    for name in ('one', 'two'):\n"
        f"        rows = stream.writeStream.format('noop').option('checkpointLocation', '{tmp_path}/' + name)\n"
        "        rows.queryName(name).start()\n"
    )
    with running(flow(tmp_path, '"job": "job.py"'), tmp_path) as daemon:
        said = failure(daemon, "asks for it too")
    text = f"{said['error']} {said.get('hint', '')}"
    assert "consumer 'spark' is read by 127.0.0.1:" in text
    assert "needs a load() with a consumer of its own" in text
    assert "query one failed, beside query two" in text or "query two failed, beside query one" in text
