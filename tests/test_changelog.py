"""Every fragment in changelog.d has a kind, and is in what `make changelog` makes of them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAGMENTS = [
    path for path in sorted((ROOT / "changelog.d").iterdir()) if path.name not in ("README.md", "template.md.jinja")
]


def test_each_fragment_has_a_kind() -> None:
    assert [
        path.name
        for path in FRAGMENTS
        if path.suffixes not in ([".added", ".md"], [".changed", ".md"], [".fixed", ".md"])
    ] == []


def test_all_are_in_the_next_release() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"]
    made = " ".join(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    assert [path.name for path in FRAGMENTS if " ".join(path.read_text().split()) not in made] == []
