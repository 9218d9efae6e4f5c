"""What is measured: a name, a way to run it in a directory, and what must be in its files afterwards."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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


def _count_lines(file: Path) -> int:
    lines = 0
    with file.open("rb") as opened:
        while data := opened.read(4 << 20):
            lines += len(data) - len(data.replace(b"\n", b""))
    return lines
