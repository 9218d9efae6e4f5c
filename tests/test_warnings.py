"""A warning has a file in walflow/warnings, and is given somewhere."""

import re
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from walflow.cli import app
from walflow.warnings import registered

ROOT: Final = Path(__file__).parents[1]
ROOM: Final = ROOT / "walflow" / "warnings"
SOURCES: Final = [
    file.read_text(encoding="utf-8")
    for folder in ("walflow", "connectors")
    for file in (ROOT / folder).rglob("*.py")
    if file.parent != ROOM
]
GIVEN_BY_CONSTANT: Final = {"risk", "state-in-memory"}  # by walflow.contract and walflow.cli.promises


@pytest.mark.parametrize("file", sorted(path.stem for path in ROOM.glob("*.py") if path.stem != "__init__"))
def test_a_file_is_one_warning(file: str) -> None:
    assert file.replace("_", "-") in registered()


@pytest.mark.parametrize("name", registered())
def test_it_is_named_like_its_file_and_given_somewhere(name: str) -> None:
    stem = name.replace("-", "_")
    assert (ROOM / f"{stem}.py").is_file()
    given = re.compile(rf'warning\(\s*{stem.upper()},|Risk\(\s*"{name}",')
    assert name in GIVEN_BY_CONSTANT or any(given.search(source) for source in SOURCES)


def test_the_command_lists_them() -> None:
    listed = CliRunner().invoke(app(), ["check", "--list-warnings"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(registered())
