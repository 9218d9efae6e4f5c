"""What is said of a script in a file of its own."""

import pytest

from walflow.diagnostics import Diagnostic, Source
from walflow.lang.parser import parse_script


@pytest.mark.parametrize(
    "text", ["", "# nothing", "let", "let x", "match", "(", ")", "emit =>", "match event of case", "x."]
)
def test_a_script_that_ends_within_its_first_statement_is_a_mistake(text: str) -> None:
    said: list[Diagnostic] = []
    definition = parse_script(Source("script.tremor", text), "s", (), said.append)
    assert not definition.whole
    assert len(said) == 1
