"""Walks the mistakes, and keeps what is printed.

python -m tests.mistakes.walk      # writes flow_files.txt and command_lines.txt anew: read the difference
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.mistakes.command_lines import COMMANDS, FILES
from tests.mistakes.flow_files import MISTAKES, RIGHT
from walflow.wal import Log, LogOptions

HERE: Final = Path(__file__).parent
WARNS: Final = ("warning:", "note:")


def flow_with(name: str) -> str:
    text = RIGHT
    for before, now in MISTAKES[name]:
        assert before in text, (name, before)
        text = text.replace(before, now)
    return text


def said_of(name: str, directory: Path) -> str:
    """What `walflow check` says of the flow with this mistake, without what it says of the right one,
    and the exit code."""
    usual = {*_warnings(_checked(RIGHT, directory)[1])}
    code, output = _checked(flow_with(name), directory)
    said = output if code else "\n".join(line for line in _warnings(output) if line not in usual)
    return f"{said.strip()}\nexit code {code}\n"


def said_to(command: str, directory: Path) -> str:
    """In a directory that `prepare` has made."""
    ended = walflow(command, directory)
    return f"{(ended.stdout + ended.stderr).strip()}\nexit code {ended.returncode}\n"


def prepare(directory: Path) -> Path:
    (directory / "main.troy").write_text(RIGHT)
    for name, text in FILES.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    Log(LogOptions(str(directory / "state"))).close()
    return directory


def walflow(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WALFLOW")}
    return subprocess.run(
        [sys.executable, "-m", "walflow", *shlex.split(command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        stdin=subprocess.DEVNULL,
        cwd=directory,
        env={**env, "COLUMNS": "120", "TERM": "dumb"},
    )


def kept(file: str) -> dict[str, str]:
    parts = (HERE / file).read_text(encoding="utf-8").split("## ")[1:]
    return {name: text.strip() + "\n" for name, _, text in (part.partition("\n") for part in parts)}


def _checked(text: str, directory: Path) -> tuple[int, str]:
    from typer.testing import CliRunner

    from walflow.cli import app

    (directory / "main.troy").write_text(text)
    before = os.getcwd()
    os.chdir(directory)
    try:
        result = CliRunner().invoke(app(), ["check", "main.troy"], prog_name="walflow")
    finally:
        os.chdir(before)
    return result.exit_code, result.output.replace(str(directory), "DIR")


def _warnings(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(WARNS)]


def _write(file: str, head: str, said: Mapping[str, str]) -> None:
    text = "\n".join([head, *(f"## {name}\n{words}" for name, words in said.items())])
    (HERE / file).write_text(text, encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        _write("flow_files.txt", "# flow_files.py", {each: said_of(each, directory) for each in MISTAKES})
    with tempfile.TemporaryDirectory() as name:
        directory = prepare(Path(name))
        _write("command_lines.txt", "# command_lines.py", {each: said_to(each, directory) for each in COMMANDS})


if __name__ == "__main__":
    main()
