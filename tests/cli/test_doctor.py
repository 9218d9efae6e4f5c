"""`walflow doctor`: what is fine, and what is not."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, WALFLOW
from walflow.cli.doctor import PYTHONS

SUBJECTS = ["Python", "kernel", "packages", "extras", "event loop", "open files", "memory"]
SHM = Path("/dev/shm")


def doctor(*arguments: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'{before} exec "$@"', "sh", *WALFLOW, "doctor", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def problems(*arguments: str | Path, before: str = "") -> dict[str, str]:
    done = doctor(*arguments, "--json", before=before)
    found = {one["of"]: one["problem"] for one in json.loads(done.stdout) if one["problem"] is not None}
    assert (done.returncode, done.stderr) == (1 if found else 0, "")
    return found


def test_a_line_for_each_and_a_sum(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    *lines, last = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [*SUBJECTS, f"directory {tmp_path.resolve()}"]
    assert done.returncode == (0 if all(line.endswith(": ok") for line in lines) else 1)
    assert last == "no problem" or last.endswith(" are a problem")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_open_files(tmp_path: Path) -> None:
    assert "raise the hard limit" in problems(tmp_path, before="ulimit -n 1000;")["open files"]
    assert "open files" not in problems(tmp_path, before="ulimit -n 4096;")


@pytest.mark.skipif(not SHM.is_dir(), reason="there is no /dev/shm")
def test_a_file_system_in_memory() -> None:
    assert "after a power cut" in problems(SHM)[f"directory {SHM}"]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    (said,) = [text for of, text in problems(tmp_path / "gone").items() if of.startswith("directory")]
    assert said.startswith("No such file or directory: ")


def test_a_package_that_is_missing(tmp_path: Path) -> None:
    """As its metadata says, which is how pip knows."""
    code = (
        "import importlib.metadata as m, sys\n"
        "known = m.Distribution.from_name.__func__\n"
        "def without(cls, name):\n"
        "    if name == 'orjson': raise m.PackageNotFoundError(name)\n"
        "    return known(cls, name)\n"
        "m.Distribution.from_name = classmethod(without)\n"
        "import walflow_command; walflow_command.main()"
    )
    command = [sys.executable, "-c", code, "doctor", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert "orjson missing: install walflow anew" in done.stdout
    assert done.returncode == 1


def test_the_oldest_python_is_that_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, PYTHONS[0]))}"
