"""Others that do the like: rsyslog and Redis as they are, and an echo that does nothing else."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.lines import REDIS_STREAM
from bench.load import Target
from bench.systems import WrongResult
from bench.unpacked import REDIS, RSYSLOG, Package, absent, environment, libraries, program
from demo.server import PATIENCE, free_port

RSYSLOG_CONFIG: Final = """
global(workDirectory="{workdir}" maxMessageSize="64k")
module(load="imtcp")
module(load="mmjsonparse")
template(name="raw" type="string" string="%rawmsg%\\n")
ruleset(name="forward" {queue}) {{
  {looks} action(type="omfwd" target="127.0.0.1" port="{forwards_to}" protocol="tcp" template="raw" \
action.resumeInterval="1")
}}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="forward")
"""
ON_DISK: Final = 'queue.type="Disk" queue.filename="queue" queue.maxFileSize="16m" queue.maxDiskSpace="4g"'
IN_MEMORY: Final = 'queue.type="LinkedList" queue.size="200000"'
# each line is read as JSON, and goes on if one member is what it should be
PARSES: Final = 'action(type="mmjsonparse" cookie="" useRawMsg="on")\n  if $!level == "info" then'


class Rsyslog:
    """A queue between a TCP input and a TCP output. It never syncs a file."""

    def __init__(self, name: str, queue: str, looks: str = "") -> None:
        self.name = name
        self._queue = queue
        self._looks = looks

    def absent(self) -> str | None:
        return absent(RSYSLOG)

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        daemon = program(RSYSLOG)
        assert daemon is not None
        port, forwards_to = free_port(), free_port()
        config = workdir / "rsyslog.conf"
        config.write_text(
            RSYSLOG_CONFIG.format(
                workdir=workdir, port=port, forwards_to=forwards_to, queue=self._queue, looks=self._looks
            )
        )
        command: list[str | Path] = [daemon, "-n", "-f", config, "-i", workdir / "pid", "-M", modules_of(daemon)]
        with started(command, workdir, port, environment(RSYSLOG)) as pid:
            yield Target(port, pid, forwards_to)

    def verify(self, workdir: Path, sent: int) -> None: ...


class Redis:
    """A stream: XADD, answered after the append-only file was synced, once for all that one turn of its loop read."""

    name = "Redis, AOF synced always"
    OPTIONS: Final = (
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--auto-aof-rewrite-percentage",
        "0",
    )

    def __init__(self) -> None:
        self._entries = 0

    def absent(self) -> str | None:
        return absent(REDIS)

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        daemon = program(REDIS)
        assert daemon is not None
        port = free_port()
        place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(workdir))
        with started([daemon, *place, *self.OPTIONS], workdir, port, environment(REDIS)) as pid:
            yield Target(port, pid)
            self._entries = _count_entries(port)

    def verify(self, workdir: Path, sent: int) -> None:
        if self._entries != sent:
            raise WrongResult(f"{self.name}: {sent:,} entries were sent, {self._entries:,} are in the stream")


class BareEcho:
    """What the generator can do when the other side does next to nothing."""

    name = "an echo that does nothing (uvloop)"

    def absent(self) -> str | None:
        return None

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        port = free_port()
        with started([sys.executable, "-m", "bench.echo", str(port)], workdir, port) as pid:
            yield Target(port, pid)

    def verify(self, workdir: Path, sent: int) -> None: ...


@contextmanager
def started(
    command: Sequence[str | Path], workdir: Path, port: int, environ: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Its pid, once it listens. Killed in the end. Raises WrongResult."""
    said = workdir / "said.out"
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environ, process_group=0)
    try:
        _wait_until_listening(process, port, said)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _wait_until_listening(process: "subprocess.Popen[bytes]", port: int, said: Path) -> None:
    """Looks at the kernel's table: a connection of ours would be the first it takes."""
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    deadline = time.monotonic() + PATIENCE
    while wanted not in Path("/proc/net/tcp").read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            words = said.read_text(errors="replace")[-500:]
            raise WrongResult(f"{process.args!r} does not listen: {words}")
        time.sleep(0.02)


def _count_entries(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as sock, sock.makefile("rb") as answers:
        sock.sendall(b"XLEN %b\r\n" % REDIS_STREAM)
        return int(answers.readline().lstrip(b":"))


def modules_of(daemon: Path) -> Path:
    own: Package = RSYSLOG
    places = libraries(own) if own.place in daemon.parents else [*Path("/usr/lib").glob("*-linux-gnu")]
    return next(
        path / "rsyslog" for path in [*places, Path("/usr/lib"), Path("/usr/lib64")] if (path / "rsyslog").is_dir()
    )
