"""docs/reference/scripts.md: each example gives what stands below it, compiled and interpreted; the flow is sound."""

import json
import re
from pathlib import Path

import pytest

from tests.compile.world import KEPT, script
from walflow.diagnostics import render_all
from walflow.plan import load

TEXT = (Path(__file__).parents[2] / "docs/reference/scripts.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```tremor\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("text", "runs"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_gives(text: str, runs: str) -> None:
    """One event after the other, which is only seen where a script has state."""
    lines = [run.partition(" -> ") for run in runs.splitlines()]
    events = [json.loads(written) for written, _, _ in lines]
    found = script(text).run(*events)
    assert list(map(_shown, found, events)) == [expected for _, _, expected in lines]


def _shown(found: object, event: object) -> str:
    if isinstance(found, tuple):
        port, value = found
        return f"{port} {json.dumps(event if value is KEPT else value)}"
    return "dropped" if found is None else f"error {found}"


def test_the_flow_is_sound(tmp_path: Path) -> None:
    (flow,) = re.findall(r"```troy\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "main.troy").write_text(flow, encoding="utf-8")
    assembly, said = load([tmp_path / "main.troy"])
    assert assembly is not None, render_all(said)
