"""77 mistakes of a new user, each with all that is printed: 34 in flow files and 40 on the command line here, those
at run time in test_run_time.py."""

from pathlib import Path

import pytest

from tests.mistakes.command_lines import COMMANDS
from tests.mistakes.flow_files import MISTAKES
from tests.mistakes.walk import kept, prepare, said_of, said_to


@pytest.mark.parametrize("name", MISTAKES)
def test_in_a_flow_file(tmp_path: Path, name: str) -> None:
    assert said_of(name, tmp_path) == kept("flow_files.txt")[name]


@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=pytest.mark.nightly if at % 8 else pytest.mark.test) for at, one in enumerate(COMMANDS)],
)
def test_on_the_command_line(tmp_path: Path, command: str) -> None:
    assert said_to(command, prepare(tmp_path)) == kept("command_lines.txt")[command]


@pytest.mark.parametrize(("file", "walked"), [("flow_files.txt", MISTAKES), ("command_lines.txt", COMMANDS)])
def test_nothing_is_kept_that_is_not_walked(file: str, walked: list[str]) -> None:
    assert [*kept(file)] == [*walked]


@pytest.mark.parametrize("name", MISTAKES)
def test_one_error_or_warning_a_mistake(name: str) -> None:
    said = kept("flow_files.txt")[name]
    assert said.count(" error: ") + said.startswith("error: ") <= 1
    assert "error: " in said or "warning: " in said or "note: " in said
