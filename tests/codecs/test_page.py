"""The table of events in docs/reference/codecs.md is what the codecs read."""

import json
import re
from pathlib import Path

import pytest

from walflow.codecs import make, registered

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "codecs.md"
ROWS = re.findall(r"^\| `([\w-]+)` \| `(.+)` \| `(.+)` \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("name", "text", "event"), ROWS, ids=lambda value: value[:20])
def test_each_row(name: str, text: str, event: str) -> None:
    assert make(name).decode(text.replace(r"\|", "|").encode()) == json.loads(event)


def test_there_are_rows() -> None:
    assert {name for name, _, _ in ROWS} == {"csv", "influx", "statsd", "dogstatsd", "graphite-plaintext"}
    assert {name for name, _, _ in ROWS} <= set(registered())
