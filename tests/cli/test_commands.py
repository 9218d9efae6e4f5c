"""What is said of a command without its arguments."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from walflow.cli import app


def commands(
    of: Any, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:  # Any: typer's are private
    for name, command in of.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        elif any(one.param_type_name == "argument" and one.required for one in command.params):
            yield (*words, name), command


@pytest.mark.parametrize("words", [words for words, _ in commands(typer.main.get_command(app()))])
def test_a_missing_argument_comes_with_an_example(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app(), list(words), prog_name="walflow", env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"For example: walflow {' '.join(words)} " in result.output


def test_a_value_that_an_option_does_not_have() -> None:
    result = CliRunner().invoke(app(), ["graph", "--format", "png", "main.troy"], env={"COLUMNS": "200"})
    assert "Invalid value for '--format': 'png' is not one of 'mermaid', 'dot', 'svg'." in result.output
