"""What git says of a checkout."""

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

RECENT_SECONDS: Final = 86_400


class Unknown(Exception):
    """There is no such commit in this clone."""


class Git(NamedTuple):
    root: Path

    def head(self) -> str:
        return self._says("rev-parse", "HEAD").strip()

    def is_clean(self) -> bool:
        return not self._says("status", "--porcelain")

    def changed(self, commit: str) -> frozenset[str]:
        """The files that differ from it, committed or not. Raises Unknown."""
        try:
            known = self._says("diff", "--name-only", "--no-renames", "-z", commit, "--")
        except subprocess.CalledProcessError as error:
            raise Unknown(commit) from error
        new = self._says("ls-files", "--others", "--exclude-standard", "-z")
        return frozenset((known + new).split("\0")) - {""}

    def recent(self) -> frozenset[str]:
        """Those that the last day's commits have changed, before HEAD: a build may be asked for later. Empty where
        the clone has no older commit."""
        newest = int(self._says("log", "-1", "--format=%ct", "HEAD"))
        before = f"--before={newest - RECENT_SECONDS}"
        older = self._says("rev-list", "-1", "--first-parent", before, "HEAD").strip()
        return self.changed(older) if older else frozenset()

    def _says(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout
