"""`walflow run` as a user starts it, and clients as a user would write them."""

import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.flows.builder import OUT, PASSED, TCP, flow_of, plain
from tests.system.process import ROOT, Process
from tests.waiting import PATIENCE

__all__ = ["ROOT"]  # process's, for those that import it with a Daemon

WALFLOW = [sys.executable, "-m", "walflow"]
PATIENT = ["--drain-seconds", str(PATIENCE)]  # where a drain has an end, it comes to it, however starved


class Daemon(Process):
    """One process. `lines` are its log lines; `wait_for` reads on until one of that event comes. `admin`: where its
    HTTP is; by default nowhere, for several run at a time."""

    def __init__(
        self,
        flow: Path,
        workdir: Path,
        *options: str,
        prefix: Sequence[str] = (),
        command: Sequence[str] = (),
        admin: str = "off",
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        command = command or [*prefix, *WALFLOW, "run"]
        command = [*command, str(flow), "--workdir", str(workdir), "--admin", admin, *PATIENT, *options]
        super().__init__(command, environment=environment, stdin=stdin, descriptors=descriptors)
        self.lines: list[dict[str, object]] = []
        self.raw: list[str] = []
        self._arrived: queue.Queue[dict[str, object] | None] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read_log, daemon=True),
            threading.Thread(target=self._drain_stdout, daemon=True),
        ]
        self.stdout: list[bytes] = []
        for reader in self._readers:
            reader.start()

    @property
    def memory(self) -> int:
        """Bytes resident at the peak."""
        return _status(self.pid, "VmHWM")

    def wait_for(self, event: str) -> dict[str, object]:
        return self.wait_for_one_of(event)

    def wait_for_one_of(self, *events: str) -> dict[str, object]:
        deadline = time.monotonic() + PATIENCE
        while True:
            line = self._arrived.get(timeout=max(0.01, deadline - time.monotonic()))
            assert line is not None, f"ended without saying {' or '.join(events)}: {self.raw[-20:]}"
            if line.get("event") in events:
                return line

    def port(self) -> int:
        return int(str(self.wait_for("listening")["address"]).rsplit(":", 1)[1])

    def terminate(self) -> int:
        """SIGTERM to the daemon, not to what traces it; and the exit code."""
        running = [line for line in self.lines if line.get("event") == "running"] or [self.wait_for("running")]
        os.kill(int(str(running[0]["pid"])), signal.SIGTERM)
        return self.wait()

    def drained(self) -> None:
        """SIGTERM: it ends well, and leaves nothing in a log."""
        assert self.terminate() == 0
        assert self.last("stopped")["left"] == 0, "\n".join(self.raw)

    def last(self, event: str) -> dict[str, object]:
        """The last such line, or the first one to come: connectors start in no fixed order."""
        said = [line for line in self.lines if line.get("event") == event]
        return said[-1] if said else self.wait_for(event)

    def _closed(self) -> None:
        for reader in self._readers:
            reader.join(PATIENCE)
        super()._closed()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            text = raw.decode(errors="replace").rstrip("\n")
            self.raw.append(text)
            try:
                line = json.loads(text)
            except ValueError:
                line = {"event": text}
            self.lines.append(line)
            self._arrived.put(line)
        self._arrived.put(None)

    def _drain_stdout(self) -> None:
        assert self.process.stdout is not None
        self.stdout += self.process.stdout


@contextmanager
def running(
    flow: Path,
    workdir: Path,
    *options: str,
    prefix: Sequence[str] = (),
    command: Sequence[str] = (),
    admin: str = "off",
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[Daemon]:
    """Killed at the end if it still runs. If the test fails, what the daemon logged last is in the test's output."""
    daemon = Daemon(
        flow,
        workdir,
        *options,
        prefix=prefix,
        command=command,
        admin=admin,
        environment=environment,
        stdin=stdin,
    )
    try:
        yield daemon
    except BaseException:
        sys.stdout.write("\n".join([f"the last that the daemon {daemon.pid} said:", *daemon.raw[-40:], ""]))
        raise
    finally:
        daemon.close()


def _status(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


class Client:
    """A blocking line client."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._rest = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def lines(self, count: int) -> list[bytes]:
        """So many whole lines, as they come."""
        while self._rest.count(b"\n") < count:
            data = self.socket.recv(1 << 16)
            assert data, f"the connection ended, {count} lines were to come, {self._rest!r} did"
            self._rest += data
        lines = self._rest.split(b"\n", count)
        self._rest = lines.pop()
        return lines

    def close(self) -> None:
        self.socket.close()


def contents(directory: Path) -> Iterator[bytes]:
    """Of each file below `directory` that is still there when it is read: whose files they are may rename and delete."""
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.read_bytes()


def free_port() -> int:
    """Below those that the kernel gives to whoever connects: tests run side by side."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return int(probe.getsockname()[1])


def echo_flow(
    directory: Path, *, chunk_size: int = 16 << 20, max_chunks: int = 16, sync: str = "always", **beside: str
) -> Path:
    """tcp -> wal -> file and back, on a free port; and to the connectors `beside`: what stands behind `from`."""
    file = directory / "echo.troy"
    log = plain("wal", path="state", chunk_size=chunk_size, max_chunks=max_chunks, sync=sync)
    ways = ["tcp -> before -> log -> after", *(f"after -> {name}" for name in ("out", "tcp", *beside))]
    file.write_text(flow_of(*ways, name="server", tcp=TCP, before=PASSED, log=log, after=PASSED, out=OUT, **beside))
    return file
