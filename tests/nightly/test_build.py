"""`.ci/run` with a `make` that says what pytest would: the order, the time that each has, and what comes last."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = """#!/usr/bin/env bash
echo "make $* with ${BUDGET:-no budget}" >>"$CALLS"
case $1 in
    test) echo "=== 7 passed in 40.50s ==="; echo "=== 9000 passed, 3 skipped in 259.50s (0:04:19) ===" ;;
    touched)
        echo "left out: rest tests/wal/test_power_cut.py (walflow/wal/log.py)"
        echo "left out for want of time: 1 of 9 groups that the change touches, at most 23 tests"
        echo "=== $SAYS in 30.00s ==="
        exit "$CODE" ;;
esac
"""


def build(directory: Path, says: str, code: int) -> tuple[int, list[str], list[str]]:
    """Its exit code, what it says, and what it made."""
    (directory / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", directory / ".ci" / "run")
    program = directory / "bin" / "make"
    program.parent.mkdir()
    program.write_text(MAKE)
    program.chmod(0o755)
    calls = directory / "calls"
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "CALLS": str(calls), "SAYS": says, "CODE": str(code), "TMPDIR": str(directory)}
    command = [directory / ".ci" / "run"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), calls.read_text().splitlines()


def test_nightlys_part_has_its_time_by_what_the_tests_took_and_what_it_left_out_is_said(tmp_path: Path) -> None:
    code, said, calls = build(tmp_path, "12 passed", 0)
    assert code == 0
    assert calls == ["make check with no budget", "make test with no budget", "make touched with 120"]
    assert said[-4].startswith("left out for want of time: 1 of 9 groups")
    assert said[-3:] == [
        "=== 7 passed in 40.50s ===",
        "=== 9000 passed, 3 skipped in 259.50s (0:04:19) ===",
        "=== 12 passed in 30.00s ===",
    ]


@pytest.mark.parametrize("says", ["1 failed, 11 passed", "1 error"])
def test_a_touched_test_that_fails_fails_the_build(says: str, tmp_path: Path) -> None:
    code, said, _ = build(tmp_path, says, 2)
    assert code == 1
    assert said[-2:] == ["make touched failed, exit code 2", f"=== {says} in 30.00s ==="]
