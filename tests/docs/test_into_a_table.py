"""docs/howto/into-a-table.md, typed as it stands, but for the port."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from tests.system.daemon import ROOT, free_port, running
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "howto" / "into-a-table.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_a_line_is_a_row(tmp_path: Path) -> None:
    port = str(free_port())
    flow = tmp_path / "main.troy"
    flow.write_text(block("troy").replace("4242", port))
    check, run, send, query = block("sh").replace("4242", port).splitlines()
    assert type_in(check, tmp_path).endswith("\nok\n")
    assert run == "walflow run main.troy"
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        assert type_in(send, tmp_path) == '{"host": "a", "request": {"ms": 7}}\n'
        wait_until(lambda: has_the_row(tmp_path / "rows.db"))
        assert type_in(query, tmp_path) == "[('a', 7)]\n"
        assert daemon.terminate() == 0


def test_each_command_of_the_table_is_one(tmp_path: Path) -> None:
    commands = re.findall(r"`walflow (frontier [a-z]+) ", PAGE)
    assert {command.split()[1] for command in commands} == {"show", "accept", "take", "move"}
    for command in commands:
        assert "Usage" in type_in(f"walflow {command} --help", tmp_path)


def has_the_row(file: Path) -> bool:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as table:
        return bool(table.execute("SELECT 1 FROM events").fetchall())
    return False


def type_in(command: str, folder: Path) -> str:
    command = re.sub(r"^walflow ", f"{sys.executable} -m walflow ", command).replace("python3 ", f"{sys.executable} ")
    ran = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=100, check=False, env=os.environ
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout
