"""What is measured: a name, a way to run it in a directory, and what must be in its files afterwards."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from bench.load import Target
from demo.server import FLOWS as ECHO_FLOWS, INSTALLED, Program, Server, free_port, write_flow

FLOWS: Final = Path(__file__).resolve().parent / "flows"
SERVER: Final = ECHO_FLOWS / "server.troy"
PLAIN: Final = ECHO_FLOWS / "plain.troy"
STATE: Final = "server_state"  # where server.troy has its log


class WrongResult(Exception):
    """A run that did not do its work: its speed means nothing."""


class System(Protocol):
    @property
    def name(self) -> str: ...

    def absent(self) -> str | None:
        """Why it cannot run here, with the command that would help."""
        ...

    def running(self, workdir: Path) -> AbstractContextManager[Target]: ...

    def verify(self, workdir: Path, sent: int) -> None:
        """After it has stopped. Raises WrongResult."""
        ...


class Walflow:
    """A flow file with the arg `url`, of its file `server_out` or without it."""

    def __init__(self, name: str, flow: Path, *, file: bool = False, program: Program = INSTALLED) -> None:
        self.name = name
        self.flow = flow
        self._file = file
        self._program = program

    def run_by(self, program: Program) -> "Walflow":
        """The same, by another walflow."""
        return Walflow(self.name, self.flow, file=self._file, program=program)

    def absent(self) -> str | None:
        return None

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        port = free_port()
        flow = write_flow(workdir, self.flow, {"url": f"127.0.0.1:{port}"}, None if self._file else "server_out")
        with Server(flow, workdir, program=self._program) as server:
            server.start()
            server.wait_for("ready")
            yield Target(port, server.pid)
            code = server.stop()
            if code:
                raise WrongResult(f"{self.name}: ended with exit code {code}\n{server.last_words()}")

    def verify(self, workdir: Path, sent: int) -> None:
        if not self._file:
            return
        lines = _count_lines(workdir / "server_out.log")
        if lines != sent:
            raise WrongResult(f"{self.name}: {sent:,} lines were sent, {lines:,} are in the file")


class Tapped(Walflow):
    """The same while taps of one port are open. `taps`: the further options of each `walflow tap`. `silent`: there is
    one more that never reads its answer."""

    def __init__(
        self, name: str, flow: Path, place: str, taps: Sequence[Sequence[str]], *, silent: bool = False
    ) -> None:
        super().__init__(name, flow)
        self._place = place
        self._taps = taps
        self._silent = silent

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        port, admin = free_port(), free_port()
        flow = write_flow(workdir, self.flow, {"url": f"127.0.0.1:{port}"}, "server_out")
        with Server(flow, workdir, ["--admin", f"127.0.0.1:{admin}", "--tap"], INSTALLED) as server:
            server.start()
            server.wait_for("ready")
            with ExitStack() as taps:
                files = [
                    taps.enter_context(self._tap(workdir / f"tap{n}", admin, more))
                    for n, more in enumerate(self._taps)
                ]
                if self._silent:
                    taps.enter_context(self._unread(admin))
                _wait_for_taps(admin, len(self._taps) + self._silent)
                yield Target(port, server.pid)
                for file in files:
                    self._check(file)
            code = server.stop()
            if code:
                raise WrongResult(f"{self.name}: ended with exit code {code}\n{server.last_words()}")

    def _check(self, file: Path) -> None:
        """The tap has shown events. It may be behind, if the machine is busy."""
        deadline = time.monotonic() + 10
        while b'{"port":' not in file.read_bytes():
            if time.monotonic() > deadline:
                raise WrongResult(f"{self.name}: a tap has shown nothing: {file.read_text()}")
            time.sleep(0.05)

    @contextmanager
    def _tap(self, file: Path, admin: int, more: Sequence[str]) -> Iterator[Path]:
        command = [*INSTALLED.command, "tap", self._place, "--admin", f"127.0.0.1:{admin}", *more]
        with file.open("wb") as shown, subprocess.Popen(command, stdout=shown, stderr=shown) as process:
            yield file
            process.terminate()  # SIGINT is ignored where a script started the bench in the background

    @contextmanager
    def _unread(self, admin: int) -> Iterator[None]:
        with socket.create_connection(("127.0.0.1", admin)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.sendall(b"GET /tap?at=%b&limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n" % self._place.encode())
            yield


def _wait_for_taps(admin: int, count: int) -> None:
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as answer:
            if f"\nwalflow_open_taps {count}.0\n" in answer.read().decode():
                return
        time.sleep(0.05)


def _count_lines(file: Path) -> int:
    lines = 0
    with file.open("rb") as opened:
        while data := opened.read(4 << 20):
            lines += len(data) - len(data.replace(b"\n", b""))
    return lines
