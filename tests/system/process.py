"""A program to start, watch and kill with all that it has started. Daemons, the jobs of Spark and the parts of a
cluster are such; each of them says only what it runs and what it reads of it."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.system.warm import popen
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


class Process:
    """In a session of its own, so that all of it is found. It has the project on its path."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = subprocess.PIPE,
        stderr: int | IO[bytes] | None = subprocess.PIPE,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.process = popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            start_new_session=True,
            pass_fds=descriptors,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        for pid in session_of(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Whatever groups it has made; nothing of it is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        while session_of(self.pid):
            self.signal(signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.wait()

    def wait(self) -> int:
        """For its end."""
        code = self.process.wait(PATIENCE)
        self._closed()
        return code

    def _closed(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """Killed, if it still runs."""
        if self.alive():
            self.kill()
        else:
            self.wait()


def session_of(pid: int) -> dict[int, str]:
    """What runs in the session that it leads, itself too: pid and name."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                before, _, after = (entry / "stat").read_text().rpartition(")")
                state, _, _, session = after.split()[:4]
                if session == str(pid) and state != "Z":
                    found[int(entry.name)] = before.partition("(")[2]
    return found
