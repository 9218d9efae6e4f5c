"""Large files are read in a time that grows with their size."""

import time

import pytest

from walflow.diagnostics import Source
from walflow.lang.scan import scan


@pytest.mark.alone
@pytest.mark.parametrize("line", ["# a comment\n", "\n", "   \t\n", "#\n"])
def test_what_lies_between_tokens_costs_next_to_nothing(line: str) -> None:
    source = Source("main.troy", line * (10_000_000 // len(line)) + "end")
    started = time.monotonic()
    assert [token.type for token in scan(source)] == ["END"]
    assert time.monotonic() - started < 5
