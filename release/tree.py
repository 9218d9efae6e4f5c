"""The files of one commit, as the release has them: with its version, and with its chapter in CHANGELOG.md."""

import io
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
VERSION: Final = re.compile(r'^__version__ = "[^"]+"', re.MULTILINE)


class Tree(NamedTuple):
    """`epoch`: the time of the commit, which is that of each file in what is made of it."""

    path: Path
    version: str
    commit: str
    epoch: int


class NotReleasable(Exception):
    """The text is one line: what the tree lacks."""


def export(path: Path, version: str, revision: str = "HEAD") -> Tree:
    """Raises NotReleasable."""
    path.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as archive:
        archive.extractall(path, filter="data")
    commit, epoch = _git("show", "--no-patch", "--format=%H %ct", revision).decode().split()
    tree = Tree(path, version, commit, int(epoch))
    _set_version(tree)
    _cut_changelog(tree)
    return tree


def differs() -> list[str]:
    """What of the checkout is not in the commit, and so not in the release."""
    return _git("status", "--porcelain").decode().splitlines()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def _set_version(tree: Tree) -> None:
    project = tomllib.loads((tree.path / "pyproject.toml").read_text("utf-8"))
    file = tree.path / project["tool"]["hatch"]["version"]["path"]
    text, found = VERSION.subn(f'__version__ = "{tree.version}"', file.read_text("utf-8"))
    if found != 1:
        raise NotReleasable(f"{file.name} has {found} lines `__version__ = …`, not one")
    file.write_text(text, "utf-8")


def _cut_changelog(tree: Tree) -> None:
    """As `make changelog VERSION=…` does in a checkout. A commit in which that was done has its chapter."""
    changes = tree.path / "CHANGELOG.md"
    if f"\n## {tree.version}, " in changes.read_text("utf-8"):
        return
    day = _git("show", "--no-patch", "--format=%cs", tree.commit).decode().strip()
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", tree.version, "--date", day]
    done = subprocess.run(command, cwd=tree.path, capture_output=True, text=True, check=False)
    # What towncrier writes it adds to git's index as well, and here is no repository.
    if f"\n## {tree.version}, " not in changes.read_text("utf-8"):
        raise NotReleasable(f"CHANGELOG.md was not cut: {done.stderr.strip() or done.stdout.strip()}")
