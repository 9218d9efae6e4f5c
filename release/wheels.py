"""The sdist, and the wheel that is made of it."""

import os
import subprocess
import sys
from pathlib import Path

from release.tree import Tree


def build(tree: Tree, into: Path) -> list[Path]:
    """The wheel is made from the tree too: hatchling reads the same files in both."""
    before = set(into.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(tree.epoch)}
    subprocess.run(command, cwd=tree.path, env=environment, capture_output=True, check=True)
    return sorted(set(into.iterdir()) - before)
