"""rsyslog with a disk queue between a TCP input and a TCP output: the event is forwarded once it went through files.
It never syncs them."""

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.load import Target
from demo.server import ROOT, free_port

PACKAGES: Final = ("rsyslog", "libestr0", "libfastjson4", "liblognorm5")
UNPACKED: Final = ROOT / ".venv" / "rsyslog"  # where .venv goes, it goes

CONFIG: Final = """
global(workDirectory="{workdir}" maxMessageSize="64k")
module(load="imtcp")
template(name="raw" type="string" string="%rawmsg%\\n")
ruleset(name="forward" queue.type="Disk" queue.filename="queue" queue.maxFileSize="16m" queue.maxDiskSpace="4g") {{
  action(type="omfwd" target="127.0.0.1" port="{forwards_to}" protocol="tcp" template="raw" action.resumeInterval="1")
}}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="forward")
"""


class RsyslogDisk:
    name = "rsyslog, disk queue, forwards (never syncs)"

    def absent(self) -> str | None:
        return (
            None
            if _program() is not None
            else "no rsyslogd, and no apt-get that has it: sudo apt-get install rsyslog"
        )

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        program = _program()
        assert program is not None
        port, forwards_to = free_port(), free_port()
        config = workdir / "rsyslog.conf"
        config.write_text(CONFIG.format(workdir=workdir, port=port, forwards_to=forwards_to))
        command: list[str | Path] = [program, "-n", "-f", config, "-i", workdir / "pid", "-M", _modules(program)]
        with (workdir / "rsyslog.out").open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=_environment(), process_group=0)
        try:
            _wait_until_listening(process, port, workdir / "rsyslog.out")
            yield Target(port, process.pid, forwards_to)
        finally:
            process.kill()
            process.wait()

    def verify(self, workdir: Path, sent: int) -> None: ...


@functools.cache
def _program() -> Path | None:
    """The system's, or one unpacked beside our own packages: installing it would take over the system's log."""
    installed = shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if installed is not None:
        return Path(installed)
    program = UNPACKED / "usr" / "sbin" / "rsyslogd"
    if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        _unpack()
    return program if program.exists() and _runs(program) else None


def _unpack() -> None:
    UNPACKED.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        subprocess.run(["apt-get", "download", package], cwd=UNPACKED, capture_output=True, check=False)
    for archive in UNPACKED.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", archive, UNPACKED], check=False)


def _runs(program: Path) -> bool:
    return subprocess.run([program, "-v"], env=_environment(), capture_output=True, check=False).returncode == 0


def _libraries() -> list[Path]:
    return [*UNPACKED.glob("usr/lib/*-linux-gnu"), *UNPACKED.glob("lib/*-linux-gnu")]


def _environment() -> dict[str, str]:
    return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, _libraries()))}


def _modules(program: Path) -> Path:
    libraries = _libraries() if UNPACKED in program.parents else [*Path("/usr/lib").glob("*-linux-gnu")]
    return next(
        path / "rsyslog" for path in [*libraries, Path("/usr/lib"), Path("/usr/lib64")] if (path / "rsyslog").is_dir()
    )


def _wait_until_listening(process: "subprocess.Popen[bytes]", port: int, said: Path) -> None:
    """Looks at the kernel's table: a connection of ours would be the first it takes."""
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    deadline = time.monotonic() + 10
    while wanted not in Path("/proc/net/tcp").read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"rsyslogd does not listen: {said.read_text(errors='replace')[-500:]}")
        time.sleep(0.02)
