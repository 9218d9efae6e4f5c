"""docs/reference/doors.md has each connector, and each test that it names exists and tests that connector."""

import re
from pathlib import Path

import pytest

from walflow.registry import connectors

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| \[`(\w+)`\]\(.*\| (.+) \|$", (ROOT / "docs/reference/doors.md").read_text(), re.MULTILINE)
ALIASES = {"console": "stdio"}


def test_each_connector_has_a_row() -> None:
    assert {name for name, _ in ROWS} == {ALIASES.get(name, name) for name in connectors().of("walflow")}


@pytest.mark.parametrize(("name", "tests"), ROWS)
def test_each_test_of_a_row_exists(name: str, tests: str) -> None:
    files = re.findall(r"`(tests/[\w/]+\.py)`", tests)
    assert files, name
    assert [file for file in files if "def test_" not in (ROOT / file).read_text()] == []
