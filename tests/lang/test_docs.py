"""What the pages show of the language is so, with the connectors that are shipped."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from walflow.assemble import load
from walflow.diagnostics import render_all
from walflow.registry import GROUP, Connectors

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs" / page for page in ("reference/troy.md", "howto/test-a-flow.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"```troy ?(\w*)\n(.*?)```\n(?:\n```text\n(.*?)```)?", TEXT, re.DOTALL)

NAMED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
SHIPPED = Connectors({kind: EntryPoint(kind, value, GROUP) for kind, value in NAMED.items()})


@pytest.mark.parametrize(("kind", "text", "said"), BLOCKS, ids=range(len(BLOCKS)))
def test_examples(kind: str, text: str, said: str) -> None:
    if kind == "body":
        text = f"define flow main\nflow\n{text}\nend;\ndeploy flow main;"
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, diagnostics = load(["main.troy"], SHIPPED)
    if kind == "error":
        assert assembly is None
        assert render_all(diagnostics) + "\n" == said
    else:
        assert assembly is not None, render_all(diagnostics)


def test_the_seed_with_the_shipped_connectors() -> None:
    for seed in ("000", "002"):
        assembly, diagnostics = load([Path(__file__).parent / "seeds" / f"{seed}.troy"], SHIPPED)
        assert assembly is not None, render_all(diagnostics)
