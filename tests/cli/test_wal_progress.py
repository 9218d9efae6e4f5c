"""Long work shows a bar to whoever sits at a terminal, and to nobody else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.wal_tools import run
from tests.wal.tools import chunk_files


def beside_a_terminal(*arguments: str | Path, stdout_too: bool = False) -> tuple[int, str]:
    """The exit code, and what the terminal got that stderr is."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "walflow", "wal", *map(str, arguments)]
    stdout = end if stdout_too else subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=end, env={**os.environ, "TERM": "xterm"}
    )
    os.close(end)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:  # nobody has the other end any more
        pass
    os.close(terminal)
    return process.wait(), shown.decode()


@pytest.mark.parametrize(
    ("command", "word"), [("check", "reading"), ("dump", "reading"), ("export", "exporting"), ("import", "importing")]
)
def test_a_bar_on_a_terminal_and_none_in_a_file(path: Path, tmp_path: Path, command: str, word: str) -> None:
    (tmp_path / "lines").write_text(run("export", path).stdout)
    arguments = [tmp_path / "new", tmp_path / "lines"] if command == "import" else [path]
    code, shown = beside_a_terminal(command, *arguments)
    assert (code, word in shown) == (0, True), shown
    arguments = [tmp_path / "newer", tmp_path / "lines"] if command == "import" else [path]
    assert word not in run(command, *arguments).stderr


def test_a_repair_shows_what_it_reads(path: Path) -> None:
    os.truncate(chunk_files(str(path))[1], 500)
    code, shown = beside_a_terminal("repair", path, "--yes")
    assert (code, "reading" in shown, "reporting" in shown) == (0, True, True), shown


def test_no_bar_among_the_lines_of_a_terminal(path: Path) -> None:
    code, shown = beside_a_terminal("dump", path, stdout_too=True)
    assert code == 0
    assert "reading" not in shown
    assert len(shown.splitlines()) == 30
