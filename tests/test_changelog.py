"""Every fragment in changelog.d has a kind, and is in what `make changelog` makes of them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRAGMENTS = [
    path for path in sorted((ROOT / "changelog.d").iterdir()) if path.name not in ("README.md", "template.md.jinja")
]
HIGHLIGHTS = [path for path in FRAGMENTS if path.suffixes == [".highlight", ".md"]]


def test_each_fragment_has_a_kind() -> None:
    assert [
        path.name
        for path in FRAGMENTS
        if path.suffixes not in ([".highlight", ".md"], [".added", ".md"], [".changed", ".md"], [".fixed", ".md"])
    ] == []


@pytest.mark.skipif(not HIGHLIGHTS, reason="no fragment of the next release is a highlight yet")
def test_the_highlights_fit_on_one_screen() -> None:
    """And all other changes are folded behind them."""
    lines = _made().split("\n<details>")[0].splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 120
    assert _made().rstrip().endswith("</details>")


def test_all_are_in_the_next_release() -> None:
    made = " ".join(_made().split())
    assert [path.name for path in FRAGMENTS if " ".join(path.read_text().split()) not in made] == []


def _made() -> str:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
