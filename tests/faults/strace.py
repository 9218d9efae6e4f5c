"""strace, which makes a system call fail, tarry or be the last one; and its log, which proves that it did."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import pytest

from tests.waiting import PATIENCE

LINE: Final = re.compile(r"(?:(\d+) +)?(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)")
# whatever changes a disk, by any of its names
CHANGES: Final = (
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "fdatasync", "fsync", "sync_file_range", "ftruncate"),
    *("fallocate", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "open", "openat"),
)


class Call(NamedTuple):
    """One line of the log. `injected`: strace made it what it is."""

    pid: int
    name: str
    text: str

    @property
    def injected(self) -> bool:
        return "(INJECTED)" in self.text or "(DELAYED)" in self.text


@cache
def usable() -> bool:
    """It is there, and may trace a process that is not its child."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        assert cat.stdin is not None
        tracer = subprocess.Popen(["strace", "-p", str(cat.pid)], stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        cat.stdin.close()
        tracer.communicate()
    return "attached" in line


needs_strace = pytest.mark.skipif(
    not usable(), reason="strace is missing, or may not trace a running process (apt install strace; ptrace_scope)"
)


def options(*inject: str, path: Sequence[str | Path] = (), calls: Sequence[str] = CHANGES) -> list[str]:
    """`inject` as strace has it, without "inject="; `path`: only calls that have to do with one of these files. Tells
    of `calls`, and of those that are injected."""
    injected = [name for one in inject for name in one.partition(":")[0].split(",")]
    wanted = [f"?{name}" for name in {*calls, *injected}]
    given = ["-e", "trace=" + ",".join(sorted(wanted))]
    for one in inject:
        given += ["-e", f"inject={one}"]
    for touched in path:
        given += ["-P", str(touched)]
    return given


class Tracer:
    """strace on a process that runs already, until the end of one of them or of the block."""

    def __init__(self, pid: int, log: Path, given: Sequence[str]) -> None:
        self.log = log
        command = ["strace", "-f", "-p", str(pid), "-o", str(log), "-s", "48", *given]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert "attached" in line, line
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is not None or self._process.poll() is None:
            self._process.terminate()  # it lets go of them and goes on with nothing
        self.wait()

    def wait(self) -> None:
        """For the end of what it traces."""
        self._process.communicate(timeout=PATIENCE)

    def calls(self) -> list[Call]:
        return read(self.log)


def read(log: Path) -> list[Call]:
    found = (LINE.match(line) for line in log.read_text(errors="replace").splitlines())
    return [Call(int(one[1] or 0), one[2], one[3]) for one in found if one is not None]


def begun(log: Path) -> Counter[str]:
    """How often each call was begun."""
    lines = log.read_text(errors="replace").splitlines()
    found = [LINE.match(line) for line in lines if "<... " not in line]
    return Counter(one[2] for one in found if one is not None)


def injections(log: Path) -> int:
    return sum(call.injected for call in read(log))


def was_killed_in(log: Path, name: str) -> bool:
    """The last thing that it began was this, and it never returned."""
    *_, last, end = log.read_text(errors="replace").splitlines()
    return f"{name}(" in last and last.rstrip().endswith("= ?") and "killed by SIGKILL" in end
