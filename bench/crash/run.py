"""One system, one fault: a row."""

import asyncio
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.crash.ends import load
from bench.crash.faults import FAULTS, FULL, place_for, used_mb
from bench.crash.ledger import Ledger, Row
from bench.crash.systems import System
from bench.processes import peak_rss_mb
from demo.server import PATIENCE, free_port

USUAL: Final = (12_000, 1_000)  # events, and how many a second
MANY: Final = (60_000, 4_000)  # more than the small disk has room for
SETTLES_WITHIN: Final = 90.0  # all that was acked is there, or nothing more comes
QUIET: Final = 30.0  # seconds without anything new: longer than any system waits before it tries again


class SystemUnderTest:
    """walflow.bench.crash.faults.Running"""

    def __init__(self, system: System, directory: Path, ledger: Ledger) -> None:
        self._system = system
        self.directory = directory
        self.note = ""
        self._ledger = ledger
        self.port, self._to = free_port(), free_port()
        self.receiver = system.receiver(ledger, self._to, self.port)
        self._output = directory.with_name(f"{directory.name}.out")  # not on its disk
        self._process: subprocess.Popen[bytes] | None = None
        self.rss_mb = 0.0
        self.disk_mb = 0.0

    async def start(self) -> None:
        process = self._spawned()
        deadline = time.monotonic() + PATIENCE
        while not _listens(self.port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ChildProcessError(f"{self._system.name} does not start: {self._said()}")
            await asyncio.sleep(0.02)

    def _spawned(self) -> "subprocess.Popen[bytes]":
        ready = self._system.ready(self.directory, self.port, self._to)
        with self._output.open("ab") as out:
            self._process = subprocess.Popen(
                ready.command, cwd=self.directory, env=ready.environment, stdout=out, stderr=out, process_group=0
            )
        return self._process

    def _said(self) -> str:
        return self._output.read_text(errors="replace")[-600:]

    def end(self) -> None:
        with suppress(ProcessLookupError, AssertionError):
            self.signal(signal.SIGCONT)
        self.kill()
        self._output.unlink(missing_ok=True)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def begins(self) -> None:
        self._ledger.began = self._ledger.began or time.monotonic()

    def heals(self) -> None:
        self._ledger.healed = time.monotonic()

    async def watch(self) -> None:
        while True:
            self.disk_mb = max(self.disk_mb, used_mb(self.directory))
            if self._process is not None:
                with suppress(OSError, StopIteration):
                    self.rss_mb = max(self.rss_mb, peak_rss_mb(self._process.pid))
            await asyncio.sleep(0.25)


def _listens(port: int) -> bool:
    """By the kernel's table: a connection of ours would be the first it takes. Java listens by IPv6."""
    own = re.compile(rf":{port:04X} 0+:0000 0A")
    return any(own.search(Path(table).read_text()) for table in ("/proc/net/tcp", "/proc/net/tcp6"))


async def one(system: System, fault: str) -> Row:
    """Raises PermissionError where the fault needs root, ChildProcessError where the system does not start."""
    with place_for(fault) as directory:
        ledger = Ledger()
        run = SystemUnderTest(system, directory, ledger)
        await run.receiver.start()
        watching = asyncio.ensure_future(run.watch())
        try:
            await run.start()
            events, rate = MANY if fault == FULL else USUAL
            deadline = time.monotonic() + SETTLES_WITHIN + events / rate
            sending = asyncio.ensure_future(
                load(system.client(run.port), ledger, events, rate, lambda: time.monotonic() > deadline)
            )
            await FAULTS[fault](run)
            await sending
            ledger.ended = time.monotonic()
            await _settled(ledger)
            kept = system.has_kept(directory)
        finally:
            watching.cancel()
            run.end()
            await run.receiver.stop()
        row = ledger.row(system.name, fault, kept)
        return row._replace(note=run.note, rss_mb=round(run.rss_mb), disk_mb=round(run.disk_mb, 1))


async def _settled(ledger: Ledger) -> None:
    deadline = time.monotonic() + SETTLES_WITHIN
    while time.monotonic() < min(  # noqa: ASYNC110  # for time: what comes twice, and what may come yet
        deadline, max(ledger.news[-1], ledger.healed) + (QUIET if ledger.missing else 1.0)
    ):
        await asyncio.sleep(0.1)
