"""`make check` fails where a page has a link to nothing, an anchor that is none, or is not in the site's list of
pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = f"""
INHERIT: {ROOT / "mkdocs.yml"}
docs_dir: pages
site_dir: site
hooks: []
theme: {{name: mkdocs, custom_dir: {ROOT / "packaging/site"}}}
extra_css: []
exclude_docs: ''
nav: [index.md, other.md]
"""
WRONG = {
    "a link": ("[x](missing.md)", "'missing.md'"),
    "an anchor": ("[x](other.md#missing)", "'other.md#missing'"),
    "a page": ("", "left.md"),
}


def command() -> list[str]:
    """As the Makefile has it."""
    found = re.search(r"^check-docs: ; \$\(VENV\)/bin/mkdocs (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return [sys.executable, "-m", "mkdocs", *found[1].split()]


def test_each_mistake_is_named_and_fails(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install --group lint")
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "other.md").write_text("# Other\n")
    (pages / "index.md").write_text("# Index\n[x](other.md#other)\n")
    done = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (pages / "left.md").write_text("# Left\n")
    (pages / "index.md").write_text("\n".join(text for text, _ in WRONG.values()))
    done = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for name, (_, said) in WRONG.items():
        assert said in done.stderr, name
    assert done.stderr.count("WARNING") == len(WRONG)
