"""No byte of an event leaves by a socket before the fdatasync behind its write has returned: seen from outside, by
strace on a running daemon; and the check bites when the sync is taken out."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.system.daemon import Client, Daemon, echo_flow

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (apt install strace)")

CALLS = "write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fdatasync,fsync"
TOKEN = re.compile(r"tok\d{6}")
LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
CALL = re.compile(r"^(?P<name>\w+)\(\d+<(?P<target>[^>]*(?:->[^>]*)?)>")
RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>")


class Order:
    """Reads a trace in time order. `early`: events that reached a socket before they were synced."""

    def __init__(self) -> None:
        self.written: set[str] = set()  # in a chunk file, not synced
        self.syncing: dict[str, set[str]] = {}  # by thread: what a sync under way covers
        self.synced: set[str] = set()
        self.early: list[str] = []
        self.sent: set[str] = set()
        self.chunk_created = self.directory_synced = 0
        self._unfinished: dict[str, tuple[str, str]] = {}

    def read(self, trace: str) -> "Order":
        for text in trace.splitlines():
            match = LINE.match(text)
            if match:
                self._line(match["pid"], match["rest"])
        return self

    def _line(self, pid: str, rest: str) -> None:
        if RESUMED.match(rest):
            call = self._unfinished.pop(pid, None)
            if call is not None:
                self._done(pid, *call)
            return
        match = CALL.match(rest)
        if match is None:
            return
        self._begun(pid, match["name"], match["target"], rest)
        if rest.endswith("<unfinished ...>"):
            self._unfinished[pid] = (match["name"], match["target"] + " " + " ".join(TOKEN.findall(rest)))
        else:
            self._done(pid, match["name"], match["target"] + " " + " ".join(TOKEN.findall(rest)))

    def _begun(self, pid: str, name: str, target: str, rest: str) -> None:
        tokens = set(TOKEN.findall(rest))
        if "TCP" in target or "socket" in target:
            self.sent |= tokens
            self.early += sorted(tokens - self.synced)
        elif name in ("fdatasync", "fsync"):
            self.syncing[pid] = set(self.written) if target.endswith(".wal") else set()

    def _done(self, pid: str, name: str, target: str) -> None:
        path, *tokens = target.split(" ")
        if name in ("fdatasync", "fsync"):
            self.synced |= self.syncing.pop(pid, set())
            self.directory_synced += path.endswith("/state")
        elif path.endswith(".wal"):
            self.written |= set(tokens)


def trace_of(tmp_path: Path, *, without: str = "") -> Order:
    """Lines through a traced daemon; `without`: a Disk method that does nothing."""
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-yy", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(trace)]
    if without:
        program = tmp_path / "mutant.py"
        program.write_text(
            f"import walflow.disk\nwalflow.disk.RealDisk.{without} = lambda *given: None\n"
            "from walflow.cli import main\nmain()\n"
        )
        strace += [sys.executable, str(program), "run"]
        daemon = Daemon(echo_flow(tmp_path), tmp_path, command=strace)
    else:
        daemon = Daemon(echo_flow(tmp_path), tmp_path, prefix=strace)
    try:
        client = Client(daemon.port())
        for start in range(0, 600, 60):
            batch = [b'{"id":"tok%06d"}\n' % number for number in range(start, start + 60)]
            client.send(b"".join(batch))
            assert client.lines(60) == [line[:-1] for line in batch]
        client.close()
    finally:
        daemon.kill()
    return Order().read(trace.read_text(errors="replace"))


def test_nothing_is_echoed_before_its_sync_returned(tmp_path: Path) -> None:
    order = trace_of(tmp_path)
    assert len(order.sent) == 600
    assert order.early == []
    assert order.directory_synced > 0


def test_without_the_sync_this_is_seen(tmp_path: Path) -> None:
    order = trace_of(tmp_path, without="sync")
    assert len(order.early) == 600


def test_without_the_directory_sync_this_is_seen(tmp_path: Path) -> None:
    assert trace_of(tmp_path, without="sync_directory").directory_synced == 0
