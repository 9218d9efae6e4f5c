"""A listener as a process of its own, to start, kill and start again; what it prints is kept."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from demo.server import PATIENCE, ROOT, ServerFailed, free_port

ESTABLISHED: Final = "01"


class Printed(NamedTuple):
    """An event, as a listener printed it."""

    ingest_ns: int
    id: int


class ListenerProcess:
    """Its lines are added to `file`, life after life.
    `command`: a stranger's listener, to which the port is added."""

    def __init__(self, file: Path, command: Sequence[str] = ()) -> None:
        self.file = file
        self.port = free_port()
        self._ours = not command
        self._command = [*(command or [sys.executable, "-m", "demo.listener"]), str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None
        file.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, *options: str) -> None:
        """Raises ServerFailed if ours does not say that it listens; strangers listen when they do."""
        before = self._said()
        with self.file.open("ab") as out:
            self._process = subprocess.Popen(
                [*self._command, *options], cwd=ROOT, stdin=subprocess.PIPE, stdout=out, process_group=0
            )  # an end of the standard input would end strangers
        deadline = time.monotonic() + PATIENCE
        while self._ours and self._said() == before:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"the listener on port {self.port} did not start")
            time.sleep(0.01)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """With SIGINT it is the seed's Ctrl-C."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def freeze(self) -> None:
        """It stops reading, but the kernel still accepts data for it: events that come now are written, and no
        program has them."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def unread(self) -> int:
        """Bytes that came to it by a connection and that it has not read."""
        address = f"0100007F:{self.port:04X}"  # 127.0.0.1
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[4].split(":")[1], 16) for row in rows if row[1] == address and row[3] == ESTABLISHED)

    def text(self) -> str:
        return self.file.read_text()

    def events(self) -> list[Printed]:
        """Complete lines, in order. If a kill cut off a line, its event does not count."""
        found: list[Printed] = []
        for line in self.text().split("\n")[:-1]:
            if "{" in line and line.endswith("}"):
                event = json.loads(line[line.index("{") :])  # behind wscat's prompt
                found.append(Printed(event["ingest_ns"], event["id"]))
        return found

    def _said(self) -> int:
        return self.text().count("Listening on")


def lives(events: Iterable[Printed]) -> list[list[int]]:
    """The different ids that each run of walflow made, in their order: a metronome begins anew with 0. A run without
    an event 0 counts as more of the one before, where its ids are not 0, 1, 2 and so on."""
    found: list[list[int]] = []
    for event in sorted(set(events)):
        if event.id == 0 or not found:
            found.append([])
        found[-1].append(event.id)
    return found
