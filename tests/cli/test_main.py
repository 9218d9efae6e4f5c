"""The program around the commands: what it prints on, and what comes of that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.daemon import ROOT

FLOW = ROOT / "flows" / "echo" / "server.troy"
FULL = Path("/dev/full")


def walflow(*arguments: str | Path, stdout: int | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walflow", *map(str, arguments)]
    return subprocess.run(
        command,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | env,
        timeout=100,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [("check", FLOW), ("graph", FLOW), ("schema",), ("--version",)])
def test_a_full_disk_is_no_bug(command: tuple[str | Path, ...]) -> None:
    with FULL.open("wb") as full:
        ended = walflow(*command, stdout=full.fileno())
    assert ended.stderr == b"walflow: cannot write the output: No space left on device\n"
    assert ended.returncode == 74


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_cannot_show_is_escaped(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.troy")
    file.write_text("const a = \N{SNOWMAN};", encoding="utf-8")
    ended = walflow("check", file, PYTHONIOENCODING=encoding)
    assert b".troy:1:11: error: unexpected character `\\u2603`\n" in ended.stdout
    assert (ended.returncode, ended.stderr) == (78, b"")


def test_a_name_that_is_no_text_is_told_once_it_is_made(tmp_path: Path) -> None:
    ended = walflow("new", tmp_path / os.fsdecode(b"a \xff"), PYTHONIOENCODING="utf-8:strict")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert f"cd '{tmp_path}/a \\udcff'".encode() in ended.stdout
