"""What is on the machine is found where Spark would find it, and what is missing is said in a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSIONS = {
    'openjdk version "17.0.15" 2025-04-15': "Java 17, ",
    'openjdk version "21" 2023-09-19': "Java 21, ",
    'java version "1.8.0_202"': " is 8: sudo apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
    'openjdk version "11.0.2" 2019-01-15': " is 11: ",
    "something else": " does not say which Java it is",
}


def ask(**environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_walflow.java"],
        check=False,
        env={name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stdout


def java(directory: Path, says: str) -> Path:
    path = directory / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{says}\nE\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("says", VERSIONS)
def test_its_version_decides(says: str, tmp_path: Path) -> None:
    path = java(tmp_path, says)

    code, said = ask(JAVA_HOME=str(tmp_path))

    assert VERSIONS[says] in said
    assert str(path) in said
    assert code == (0 if said.startswith("Java ") else 1)
    assert said.count("\n") == 1


def test_path_is_searched_where_java_home_is_not_set(tmp_path: Path) -> None:
    path = java(tmp_path, 'openjdk version "25.0.1"')

    assert ask(PATH=f"{path.parent}:{os.environ['PATH']}") == (0, f"Java 25, {path}\n")


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    java(tmp_path / "path", 'openjdk version "25.0.1"')

    code, said = ask(PATH=f"{tmp_path}/path/bin:{os.environ['PATH']}", JAVA_HOME=str(tmp_path / "gone"))

    assert (code, said.count("\n")) == (1, 1)
    assert f"there is no {tmp_path}/gone/bin/java, where JAVA_HOME points: sudo apt-get install" in said


def test_none_at_all(tmp_path: Path) -> None:
    code, said = ask(PATH=str(tmp_path))

    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("Spark needs Java 17 or newer and there is none on PATH: sudo apt-get install")
