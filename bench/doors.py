"""What a door costs: HTTP requests beside a handler that does nothing else,
a followed file beside `tail -F` into `cat`."""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import STALLED, Target
from bench.peers import started
from bench.processes import cpu_seconds, peak_rss_mb
from bench.requests import EVENT, Requests
from bench.systems import FLOWS, Walflow, WrongResult
from demo.server import ROOT, Server, free_port

DOORS: Final = FLOWS / "doors"
FILE: Final = "in.log"
MB_A_SECOND: Final = 1000  # appended for each second to be measured: many times what waits for a checkpoint
MOST_OF_IT: Final = 0.95  # the rate is measured up to here: behind it, a checkpoint waits half a second for more
LOOK: Final = 0.01  # seconds between looks at how far it is read


class Handler:
    name = "an aiohttp handler that reads and answers"

    def absent(self) -> str | None:
        return None

    @contextmanager
    def running(self, workdir: Path) -> Iterator[Target]:
        port = free_port()
        with started([sys.executable, "-m", "bench.handler", str(port)], workdir, port) as pid:
            yield Target(port, pid)


@dataclass(frozen=True)
class Asked:
    """A server under requests; each answer is looked at."""

    key: str
    system: Handler | Walflow
    requests: Requests
    table: str
    baseline: str = ""
    once: bool = False

    @property
    def name(self) -> str:
        events = self.requests.events
        return f"{self.system.name}, {events} {'event' if events == 1 else 'events'} a request"

    def absent(self) -> str | None:
        return self.system.absent()

    def measure(self, workdir: Path, timing: tuple[float, float]) -> Mapping[str, float]:
        warmup, seconds = timing
        with self.system.running(workdir) as target:
            order = {
                "requests": asdict(self.requests),
                "target": asdict(target),
                "warmup": warmup,
                "seconds": seconds,
            }
            command = [sys.executable, "-m", "bench.requests", json.dumps(order)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WrongResult(f"{self.name}: {done.stderr.strip()}")
        figures: dict[str, float] = json.loads(done.stdout)
        return figures


class Reading(NamedTuple):
    """One that reads the file: how many bytes of it have arrived, and the processes that take part."""

    arrived: Callable[[], int]
    pids: list[int]


@contextmanager
def tailing(workdir: Path) -> Iterator[Reading]:
    command = ["tail", "-c", "+1", "-F", FILE]
    with (
        subprocess.Popen(command, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tail,
        subprocess.Popen(["cat"], stdin=tail.stdout, stdout=subprocess.PIPE) as cat,
    ):
        assert tail.stdout is not None
        assert cat.stdout is not None
        tail.stdout.close()
        arrived = 0
        out = cat.stdout.fileno()

        def read() -> int:
            nonlocal arrived
            if select.select([out], [], [], LOOK)[0]:
                arrived += len(os.read(out, 1 << 20))
            return arrived

        try:
            yield Reading(read, [tail.pid, cat.pid])
        finally:
            tail.kill()
            cat.kill()


@contextmanager
def following(workdir: Path) -> Iterator[Reading]:
    """What the checkpoint says has arrived: its events are acked."""
    checkpoints = workdir / "followed"

    def acked() -> int:
        time.sleep(LOOK)
        try:
            [file] = checkpoints.glob("*.json")
            return sum(int(mark[3]) for mark in json.loads(file.read_bytes())["files"])
        except (OSError, ValueError):
            return 0

    with Server(DOORS / "follow.troy", workdir) as server:
        server.start()
        server.wait_for("ready")
        yield Reading(acked, [server.pid])
        if server.stop():
            raise WrongResult(f"the follower did not end well\n{server.last_words()}")


@dataclass(frozen=True)
class Followed:
    """A file that grows as fast as it can be written, and how long it takes until most of it has arrived.
    Then all of it must."""

    key: str
    name: str
    reader: Callable[[Path], AbstractContextManager[Reading]]
    table: str
    baseline: str = ""
    once: bool = False

    def absent(self) -> str | None:
        return None

    def measure(self, workdir: Path, timing: tuple[float, float]) -> Mapping[str, float]:
        _, seconds = timing
        lines = (EVENT + b"\n") * 10_000
        times = max(1, round(seconds * MB_A_SECOND * 1e6 / len(lines)))
        (workdir / FILE).touch()
        with self.reader(workdir) as reading:
            begun = time.monotonic()
            cpu = sum(map(cpu_seconds, reading.pids))
            writer = threading.Thread(target=_append, args=(workdir / FILE, lines, times))
            writer.start()
            size = len(lines) * times
            most = _wait(reading, round(size * MOST_OF_IT))
            lasted = time.monotonic() - begun
            _wait(reading, size)
            writer.join()
            return {
                "mb_per_s": most / 1e6 / lasted,
                "cpu_ms_per_mb": (sum(map(cpu_seconds, reading.pids)) - cpu) * 1e3 / (size / 1e6),
                "peak_rss_mb": sum(map(peak_rss_mb, reading.pids)),
            }


def _append(file: Path, lines: bytes, times: int) -> None:
    with file.open("ab", buffering=0) as opened:
        for _ in range(times):
            opened.write(lines)


def _wait(reading: Reading, size: int) -> int:
    """How much has arrived, `size` at least. Raises WrongResult."""
    arrived, since = 0, time.monotonic()
    while arrived < size:
        before, arrived = arrived, reading.arrived()
        if arrived > before:
            since = time.monotonic()
        elif time.monotonic() - since > STALLED:
            raise WrongResult(f"{arrived:,} of {size:,} bytes have arrived")
    return arrived
