"""What the pages show of the language is so, with the connectors that are shipped."""

import re
from pathlib import Path

import pytest

from walflow.diagnostics import render_all
from walflow.plan import load
from walflow.registry import connectors

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"```troy ?(\w*)\n(.*?)```\n(?:\n```text\n(.*?)```)?", TEXT, re.DOTALL)

FLOW = "define flow main\nflow\n%s\nend;\ndeploy flow main;"
CONNECTOR = (
    FLOW
    % 'define connector it from %s with codec = "json", preprocessors = ["separate"], %s end; create connector it;'
)
WITHIN = {  # what a fragment stands in, by the word behind ```troy
    "body": FLOW,
    "query": FLOW % "define pipeline it into out, err, ws0, ws1 pipeline %s end; create pipeline it;",
    "client_config": CONNECTOR % ("tcp_client", 'postprocessors = ["separate"], %s'),
    "client": CONNECTOR % ("tcp_client", 'config = {"url": "here.example:1", %s}'),
    "tls": CONNECTOR % ("tcp_server", 'config = {"url": "127.0.0.1:1", "tls": {"cert": "a", "key": "b", %s}}'),
    "server": CONNECTOR % ("tcp_server", 'config = {"url": "127.0.0.1:1", %s}'),
}

SHIPPED = connectors().of("walflow")  # whatever else is installed beside it

MODULES = {kind.removeprefix("lib_"): text for kind, text, _ in BLOCKS if kind.startswith("lib_")}


@pytest.mark.parametrize(("kind", "text", "said"), BLOCKS, ids=range(len(BLOCKS)))
def test_examples(kind: str, text: str, said: str) -> None:
    for name, module in MODULES.items():
        Path(f"{name}.troy").write_text(module, encoding="utf-8")
    text = f"use {kind[4:]}; {FLOW % ''}" if kind.startswith("lib_") else WITHIN.get(kind, "%s") % text
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
