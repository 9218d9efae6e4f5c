"""A small file system of one's own, without any rights: a tmpfs in a user namespace. It lives as long as the block;
daemons are started into it, and files are put into it and taken out from outside."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

UNSHARE: Final = ("unshare", "--user", "--map-root-user", "--mount")


@cache
def usable() -> bool:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode == 0


needs_namespace = pytest.mark.skipif(not usable(), reason="no user namespaces here (unshare --user --mount)")


class SmallDisk:
    """Mounted on `point`, for those in it; `options` are tmpfs's: "size=1m", "nr_inodes=20"."""

    def __init__(self, point: Path, options: str) -> None:
        point.mkdir(exist_ok=True)
        mount = 'mount -t tmpfs -o "$1" none "$2" && echo mounted && exec cat'
        self._holder = subprocess.Popen(
            [*UNSHARE, "sh", "-c", mount, "sh", options, str(point)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"mounted\n"
        self.inside = Path(f"/proc/{self._holder.pid}/root{point.resolve()}")  # as it is seen from outside

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._holder.communicate()

    @property
    def prefix(self) -> list[str]:
        """Of a command that is to be in it."""
        target = ("--target", str(self._holder.pid))
        return ["nsenter", *target, "--user", "--preserve-credentials", "--mount", f"--wd={os.getcwd()}"]

    @property
    def free(self) -> int:
        """Bytes."""
        found = os.statvfs(self.inside)
        return found.f_bavail * found.f_bsize

    @property
    def free_inodes(self) -> int:
        return os.statvfs(self.inside).f_favail
