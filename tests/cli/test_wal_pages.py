"""What docs/howto/mend-a-log.md shows is what is printed, in that order, on a log like the one it speaks of."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.wal_tools import FIRST, append, flip
from tests.system.daemon import ROOT
from tests.wal.tools import QuickDisk, works
from walflow.cli import app
from walflow.wal import Log, LogOptions

PAGE = (ROOT / "docs" / "howto" / "mend-a-log.md").read_text()
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
    if "```text" in section
}


def orders(path: Path) -> None:
    """Eight events in records of two; the first two are acked."""
    log = Log(LogOptions(str(path), 4096, 64), QuickDisk())
    for number in range(1, 9, 2):
        append(log, b'{"n":%d}' % number, b'{"n":%d}' % (number + 1))
    log.ack(1, 2)
    log.close()


def nothing(path: Path) -> None:
    pass


def a_record_is_damaged(path: Path) -> None:
    flip(path / FIRST, 160 + 104 + 60)


def the_cursor_is_a_directory(path: Path) -> None:
    (path / "cursor").unlink()
    (path / "cursor").mkdir()


HARM: dict[str, Callable[[Path], None]] = {
    "Something is damaged": a_record_is_damaged,
    "It does not open": the_cursor_is_a_directory,
    "An event that no sink takes": nothing,
    "Take a log elsewhere": nothing,
}


def test_every_example_is_known() -> None:
    assert SECTIONS.keys() == HARM.keys()


@pytest.mark.parametrize("section", HARM)
def test_the_page_shows_what_is_printed(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders(tmp_path / "orders")
    HARM[section](tmp_path / "orders")
    monkeypatch.chdir(tmp_path)
    for block in SECTIONS[section]:
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            assert printed(command) == output, command
    log = Log(LogOptions(str(tmp_path / "orders")), QuickDisk())
    works(log)
    log.close()


def printed(command: str) -> str:
    words, _, target = command.partition(" > ")
    program, *arguments = shlex.split(words)
    assert program == "walflow"
    result = CliRunner().invoke(app(), arguments, input="y\ny\n", env={"COLUMNS": "200"})
    if target:
        Path(target).write_text(result.stdout)
        return result.stderr
    return result.output
