"""`walflow run` as a process of its own, to start, watch, kill and start again."""

import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import orjson

ROOT: Final = Path(__file__).resolve().parent.parent
FLOWS: Final = ROOT / "flows" / "echo"
PATIENCE: Final = 100.0  # seconds for what takes one or two: a machine may have much else to do

Event = dict[str, object]


class ServerFailed(Exception):
    """The server ended or did not start, without being asked to. The text is its last message."""


class Program(NamedTuple):
    """How walflow is called. `environment`: None for ours."""

    command: Sequence[str]
    environment: Mapping[str, str] | None = None


INSTALLED: Final = Program((str(Path(sys.executable).with_name("walflow")),))


class Server:
    """Runs a flow file in a directory; may be started again and again. What it logs stays in `daemon.log` there.

    It is in a process group of its own, so that a Ctrl-C meant for us does not reach it; `close` kills it.
    """

    def __init__(self, flow: Path, workdir: Path, options: Sequence[str] = (), program: Program = INSTALLED) -> None:
        self._environment = program.environment
        self._command: list[str | Path] = [
            *program.command,
            "run",
            flow,
            "--workdir",
            workdir,
            "--log-format",
            "json",
            "--admin",
            "off",
            *options,
        ]
        self._log = workdir / "daemon.log"
        self._printed = workdir / "daemon.out"
        self._read = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self._log.open("ab") as log, self._printed.open("ab") as printed:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=log,
                process_group=0,
                env=self._environment,
            )

    def events(self) -> list[Event]:
        """What it has logged since the last call. Raises ServerFailed if it is gone."""
        assert self._process is not None
        gone = self._process.poll()
        with self._log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        if gone is not None:
            raise ServerFailed(f"the server ended by itself with exit code {gone}\n{self.last_words()}")
        return [_event(line) for line in whole.splitlines()]

    def wait_for(self, event: str) -> Event:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for said in self.events():
                if said["event"] == event:
                    return said
            time.sleep(0.01)
        raise ServerFailed(f"the server did not say {event!r} within {PATIENCE:.0f} s\n{self.last_words()}")

    def kill(self) -> None:
        """SIGKILL: it gets no chance to do anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code. Raises subprocess.TimeoutExpired if it does not end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        if self.running:
            self.kill()

    def printed(self) -> bytes:
        """What came out of the flow's console: the events it could not read."""
        return self._printed.read_bytes()

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-12:] if self._log.exists() else []
        return "\n".join(f"  | {line}" for line in lines)


def write_flow(workdir: Path, flow: Path, args: Mapping[str, object], without: str | None = None) -> Path:
    """The flow file as it stands, deployed with other `args`; optionally without one of its connectors."""
    text = flow.read_text()
    if without is not None:
        text = re.sub(rf"(?m)^ *(create connector {without}\b|connect .*/connector/{without}\b).*\n", "", text)
    settings = ", ".join(f"{name} = {orjson.dumps(value).decode()}" for name, value in args.items())
    text, deployed = re.subn(r"(?m)^deploy flow (\w+);$", rf"deploy flow \1 with {settings} end;", text)
    assert deployed == 1, f"{flow} deploys {deployed} flows"
    variant = workdir / flow.name
    variant.write_text(text)
    return variant


def free_port() -> int:
    """On 127.0.0.1, and below the range that the system gives to clients. A client that reconnects to a port of that
    range without a listener may get the same port for itself, and then talks to itself."""
    rng = random.SystemRandom()
    while True:
        port = rng.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _event(line: bytes) -> Event:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = None
    return event if isinstance(event, dict) and "event" in event else {"event": line.decode(errors="replace")}
