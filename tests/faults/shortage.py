"""Ways in which a disk, or a process, has no room left; each begins, bites, and ends while a daemon runs."""

import errno
import os
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.faults.namespace import SmallDisk
from tests.faults.strace import Tracer, injections, options
from tests.waiting import PATIENCE

EDGE: Final = 8192  # bytes: the cursor lies below it, and is written in place


class Shortage(ABC):
    """`state`: the log's directory, as the test sees it; `prefix`: of the daemon's command."""

    message: str

    def __init__(self, state: Path, disk: str) -> None:
        self.state = state
        self.prefix: list[str] = []
        self.pid = 0

    def begin(self, events: int) -> None:
        """`events`: how many the log has had."""
        self.tighten()

    @abstractmethod
    def tighten(self) -> None:
        """Whatever has become free since is taken."""

    @abstractmethod
    def end(self) -> None: ...

    def close(self) -> None:
        """Of whatever it has taken for itself."""
        return


class _OnSmallDisk(Shortage):
    message = os.strerror(errno.ENOSPC)

    def __init__(self, state: Path, disk: str) -> None:
        super().__init__(state, disk)
        self.disk = SmallDisk(state, disk)
        self.state = self.disk.inside
        self.prefix = self.disk.prefix

    def close(self) -> None:
        self.disk.__exit__(None, None, None)


class NoBytes(_OnSmallDisk):
    def tighten(self) -> None:
        with open(self.state / "filler", "ab", buffering=0) as filler, suppress(OSError):
            while room := self.disk.free:
                filler.write(bytes(min(room, 1 << 20)))

    def end(self) -> None:
        (self.state / "filler").unlink()


class NoInodes(_OnSmallDisk):
    def __init__(self, state: Path, disk: str) -> None:
        super().__init__(state, f"{disk},nr_inodes=300")
        self._made: list[Path] = []

    def tighten(self) -> None:
        with suppress(OSError):  # the log was quicker to take what it had just given back
            while self.disk.free_inodes:
                path = self.state / f"filler{len(self._made)}"
                path.touch(exist_ok=False)
                self._made.append(path)

    def end(self) -> None:
        while self._made:
            self._made.pop().unlink()


class _Limit(Shortage):
    resource: str

    def __init__(self, state: Path, disk: str) -> None:
        super().__init__(state, disk)
        self._before = ""

    def begin(self, events: int) -> None:
        soft = subprocess.check_output(
            ["prlimit", "--pid", str(self.pid), f"--{self.resource}", "-o", "SOFT", "--noheadings"]
        )
        self._before = soft.decode().strip()
        self.tighten()

    def _set(self, soft: str | int) -> None:
        subprocess.run(["prlimit", "--pid", str(self.pid), f"--{self.resource}={soft}:"], check=True)

    def tighten(self) -> None:
        self._set(self.limit())

    @abstractmethod
    def limit(self) -> int: ...

    def end(self) -> None:
        self._set(self._before)


class FileTooLarge(_Limit):
    message = os.strerror(errno.EFBIG)
    resource = "fsize"

    def limit(self) -> int:
        return EDGE


class NoDescriptors(_Limit):
    message = os.strerror(errno.EMFILE)
    resource = "nofile"

    def limit(self) -> int:
        """Up to the first that is free, or will be when the log closes a chunk."""
        folder = f"/proc/{self.pid}/fd"
        taken = {int(name) for name in os.listdir(folder) if not _target(f"{folder}/{name}").endswith(".wal")}
        return min(set(range(len(taken) + 1)) - taken)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


class OverQuota(Shortage):
    """By strace: a quota needs rights. The files that the log would make or grow next are known by their names."""

    message = os.strerror(errno.EDQUOT)

    def __init__(self, state: Path, disk: str) -> None:
        super().__init__(state, disk)
        self._tracing = ExitStack()
        self._log = state.parent / "quota"

    def begin(self, events: int) -> None:
        ahead = [f"{position:020d}.wal" for position in range(events + 1, events + 20)]
        tail = sorted(name for name in os.listdir(self.state) if name.endswith(".wal"))[-1:]
        paths = [folder / name for name in {*ahead, *tail} for folder in (self.state, Path("state"))]
        given = options("openat,fallocate,pwritev,pwritev2:error=EDQUOT", path=paths, calls=[])
        self._tracing.enter_context(Tracer(self.pid, self._log, given))

    def tighten(self) -> None: ...

    def end(self) -> None:
        """Right after a call that failed: one that strace lets go of in the middle fails with ENOSYS."""
        before, deadline = injections(self._log), time.monotonic() + PATIENCE
        while injections(self._log) == before:
            assert time.monotonic() < deadline, "nothing is tried any more"
            time.sleep(0.01)
        self._tracing.close()


KINDS: Final[dict[str, type[Shortage]]] = {
    "ENOSPC, bytes": NoBytes,
    "ENOSPC, inodes": NoInodes,
    "EFBIG": FileTooLarge,
    "EDQUOT": OverQuota,
    "EMFILE": NoDescriptors,
}
ENDED_BY_DELETION: Final = ("ENOSPC, bytes", "ENOSPC, inodes")
