"""A file system of one's own in a file: what ext4 and xfs do when they are full is not what tmpfs does. Needs root,
and a loop device."""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

MAKE: Final = {"ext4": ["mkfs.ext4", "-q", "-m", "0"], "xfs": ["mkfs.xfs", "-q"], "tmpfs": []}
MIB: Final = 1 << 20


@cache
def missing(kind: str) -> str:
    """Why there is none here; empty if there is one."""
    if os.geteuid() != 0:
        return "only root may mount an image"
    if MAKE[kind] and shutil.which(MAKE[kind][0]) is None:
        return f"{MAKE[kind][0]} is missing"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Image(Path(folder), kind):
                return ""
        except (subprocess.CalledProcessError, OSError) as error:
            return f"{kind} cannot be mounted here: {error}"


class Image:
    """Mounted on `inside`, as long as the block."""

    def __init__(self, folder: Path, kind: str, mib: int = 340) -> None:
        self.inside = folder / "state"
        self._file = folder / "image"
        self._kind = kind
        self._mib = mib

    def __enter__(self) -> Self:
        self.inside.mkdir()
        if self._kind == "tmpfs":
            mount = ["mount", "-t", "tmpfs", "-o", f"size={self._mib}m", "none"]
        else:
            with open(self._file, "wb") as file:
                file.truncate(self._mib * MIB)
            _run([*MAKE[self._kind], str(self._file)])
            mount = ["mount", "-o", "loop", str(self._file)]
        _run([*mount, str(self.inside)])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        _run(["umount", str(self.inside)])
        self._file.unlink(missing_ok=True)

    @property
    def free(self) -> int:
        """Bytes."""
        found = os.statvfs(self.inside)
        return found.f_bavail * found.f_bsize

    def fill(self, left: int) -> None:
        """All but so many bytes, about."""
        with open(self.inside / "filler", "ab", buffering=0) as filler, suppress(OSError):
            while self.free > left:
                filler.write(bytes(min(self.free - left, MIB)))
            os.fsync(filler.fileno())

    def release(self) -> None:
        (self.inside / "filler").unlink()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
