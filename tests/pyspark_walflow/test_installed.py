"""format("walflow") is there without registration: from an installed wheel, from a checkout, and by --py-files."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.jvm import SHORT_LIVED, VARIABLES
from tests.pyspark_walflow.clean import borrow_spark, clean_python
from tests.pyspark_walflow.lake import Lake, numbered

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).parent / "job.py"


@pytest.fixture(scope="module")
def sparks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return borrow_spark(tmp_path_factory.mktemp("sparks"))


@pytest.fixture
def python(tmp_path: Path, sparks: Path) -> Path:
    return clean_python(tmp_path / "venv", sparks)


def run(command: Sequence[object], python: Path, lake: Lake, **environment: str) -> str:
    """The last line of the job."""
    without = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "SPARK_", "PYSPARK_"))
    }
    ours = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", **dict.fromkeys(VARIABLES, SHORT_LIVED)}
    done = subprocess.run(
        [str(word) for word in (*command, JOB, lake.port, lake.state / "token")],
        env=without | ours | environment,
        cwd=lake.directory,  # not the checkout, where everything would be found
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


def install(python: Path, version: str, directory: Path) -> None:
    """`version`: standard, or editable, as `pip install -e` has it built."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", f"wheel:{version}", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = directory.glob("walflow-*.whl")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, timeout=120)


def test_an_installed_wheel(lake: Lake, python: Path, tmp_path: Path) -> None:
    install(python, "standard", tmp_path)
    lake.send(*numbered(30))
    said = run([python], python, lake)
    assert said.startswith(f"30 in lake, 30 streamed, from {python.parents[1]}/lib/")


def test_an_editable_checkout(lake: Lake, python: Path, tmp_path: Path) -> None:
    install(python, "editable", tmp_path)
    lake.send(*numbered(30))
    assert run([python], python, lake) == f"30 in lake, 30 streamed, from {ROOT}/pyspark_walflow/__init__.py"


def test_py_files(lake: Lake, python: Path, sparks: Path, tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "pyspark_walflow.bundle", tmp_path], check=True, capture_output=True, text=True
    )
    lake.send(*numbered(30))
    submit = [sparks / "pyspark/bin/spark-submit", "--master", "local[2]", "--py-files", made.stdout.strip()]
    said = run(submit, python, lake, SPARK_HOME=str(sparks / "pyspark"))
    assert said.startswith("30 in lake, 30 streamed, from ")
    assert said.endswith("/pyspark_walflow.py")


def test_a_python_that_spark_was_not_told_of(lake: Lake, tmp_path: Path) -> None:
    """`.venv/bin/python job.py`: Spark takes `python3` from PATH, which is another one."""
    stranger = tmp_path / "python3"
    stranger.symlink_to("/usr/bin/python3")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_"))}
    environment |= {"PATH": f"{tmp_path}:{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, JOB, str(lake.port), lake.state / "token"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode != 0
    assert "DATA_SOURCE_NOT_FOUND" in done.stderr
