"""flows/spark/hosts.troy as a test starts it, lines for it, and what it has to make of them."""

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.system.admin import Admin
from tests.system.daemon import ROOT, Client, Daemon
from tests.system.process import session_of
from tests.waiting import wait_until

FLOW = ROOT / "flows" / "spark" / "hosts.troy"
PATIENCE = 300.0  # a session and its first batch take ten seconds, or a hundred where others want the processors too
HOSTS = 5
WINDOW = 10  # seconds
BATCH = 400

Counts = Counter[tuple[str, str]]


def flow(directory: Path, config: str = "") -> Path:
    """On free ports, and with small batches, so that a kill lands between and within them; `config`: more of it."""
    text = FLOW.read_text().replace("127.0.0.1:65534", "127.0.0.1:0").replace("127.0.0.1:7700", "127.0.0.1:0")
    given = '"url": args.bridge,\n'
    assert given in text
    file = directory / "hosts.troy"
    file.write_text(text.replace(given, f'{given} "max_rows_per_batch": {BATCH},\n{config}'))
    return file


def stamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_767_225_600 + second))


def lines(first: int, end: int) -> list[tuple[str, int]]:
    """Twenty a second, by turns of each host."""
    return [(f"h{number % HOSTS}", number // 20) for number in range(first, end)]


def send(port: int, given: Iterable[tuple[str, int]]) -> None:
    data = "".join(json.dumps({"host": host, "ts": stamp(second)}) + "\n" for host, second in given)
    client = Client(port)
    client.send(data.encode())
    client.socket.shutdown(socket.SHUT_WR)
    assert client.socket.recv(1) == b""  # the server has read all of it
    client.close()


def expected(given: Iterable[tuple[str, int]]) -> Counts:
    return Counter((stamp(second // WINDOW * WINDOW), host) for host, second in given)


def written(directory: Path) -> list[tuple[tuple[str, str], int]]:
    file = directory / "hosts.json"
    rows = [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
    return [((row["begin"], row["host"]), row["lines"]) for row in rows]


def until(condition: Callable[[], object], daemon: Daemon, patience: float = PATIENCE) -> None:
    def holds() -> object:
        done = condition()
        assert done or daemon.process.poll() is None, daemon.raw[-20:]
        return done

    wait_until(holds, lambda: daemon.raw[-20:], patience=patience)


def said(daemon: Daemon, event: str) -> list[dict[str, object]]:
    return [line for line in list(daemon.lines) if line.get("event") == event]


def ready(daemon: Daemon) -> int:
    """The port for lines."""
    until(lambda: said(daemon, "ready"), daemon)
    (listening,) = [line for line in said(daemon, "listening") if line.get("component") == "lines"]
    return int(str(listening["address"]).rsplit(":", 1)[1])


def driver_of(daemon: Daemon) -> int:
    return int(str(said(daemon, "spark starting")[-1]["pid"]))


def gone(pid: int) -> bool:
    return not session_of(pid)


def wait_gone(pid: int) -> None:
    wait_until(lambda: gone(pid), lambda: session_of(pid))


def batches(daemon: Daemon) -> int:
    return len(said(daemon, "spark batch"))


def logged(admin: Admin) -> float:
    return admin.metrics()["walflow_wal_durable_position", "counts"]
