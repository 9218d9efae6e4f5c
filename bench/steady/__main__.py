"""`python -m bench.steady --minutes 60 --json FILE`: one daemon under mixed load at one rate, looked at every ten
seconds. What must stay as it is: memory, descriptors, threads, CPU an event, bytes of the log.

The first quarter is a start: buffers and caches fill. The medians of the last quarter are compared with those of the
second. At the end everything that a door has taken must be in the file behind the log.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import document
from bench.processes import cpu_seconds
from demo.server import ROOT, Server, free_port, write_flow

FLOW: Final = Path(__file__).with_name("steady.troy")
LOOK: Final = 10.0  # seconds
FLAT: Final = {"rss_mb": 1.05, "descriptors": 1.1, "threads": 1.0, "cpu_us_per_event": 1.1, "log_mb": 1.25}
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """`cpu_us_per_event`: since the sample before, per event that came to the file behind the log."""

    seconds: float
    rss_mb: float
    descriptors: int
    threads: int
    events: int
    cpu_us_per_event: float
    log_mb: float


class Watch:
    def __init__(self, pid: int, directory: Path) -> None:
        self._pid = pid
        self._directory = directory
        self._begun = time.monotonic()
        self._cpu = cpu_seconds(pid)
        self._events = 0
        self._read = 0
        self.samples: list[Sample] = []
        self.came: Counter[str] = Counter()  # events in the file, by door
        self.seen = bytearray()  # a byte a number

    def look(self) -> Sample:
        self.read()
        cpu, events = cpu_seconds(self._pid), self.came.total()
        statm = Path(f"/proc/{self._pid}/statm").read_text().split()
        made = Sample(
            round(time.monotonic() - self._begun, 1),
            int(statm[1]) * PAGE / 1e6,
            len(os.listdir(f"/proc/{self._pid}/fd")),
            len(os.listdir(f"/proc/{self._pid}/task")),
            events,
            (cpu - self._cpu) * 1e6 / max(1, events - self._events),
            sum(file.stat().st_size for file in (self._directory / "state").iterdir()) / 1e6,
        )
        self._cpu, self._events = cpu, events
        self.samples.append(made)
        return made

    def read(self) -> None:
        """What is new in the file behind the log."""
        try:
            with (self._directory / "kept.log").open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            event = json.loads(line)
            number: int = event["seq"]
            self.seen.extend(bytes(max(0, number + 1 - len(self.seen))))
            self.seen[number] = 1
            self.came[event["door"]] += 1


def flatness(samples: list[Sample]) -> dict[str, tuple[float, float]]:
    """Medians of the second and of the last quarter."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    return {
        name: (median(getattr(one, name) for one in early), median(getattr(one, name) for one in late))
        for name in FLAT
    }


def grown(samples: list[Sample]) -> list[str]:
    """The names of what is above its bound."""
    return [name for name, (early, late) in flatness(samples).items() if late > early * FLAT[name]]


def main(
    minutes: Annotated[float, typer.Option(min=0.5)] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all samples there.")] = None,
) -> None:
    """Exits with 1 where something grew, or an event is missing."""
    console = Console(highlight=False, soft_wrap=True)
    with TemporaryDirectory(prefix="walflow-steady-", dir=ROOT / "bench") as place:
        samples, sent, came, missing = _run(console, Path(place), minutes * 60)
    found = flatness(samples)
    table = Table("", "second quarter", "last quarter", "ratio", "at most")
    for name, (early, late) in found.items():
        table.add_row(name, f"{early:,.1f}", f"{late:,.1f}", f"{late / early:.3f}", f"{FLAT[name]:g}")
    console.print(table)
    for door, count in sent.items():
        console.print(f"{door}: {count:,} taken, {came[door]:,} in the file")
    console.print(f"{missing:,} missing, {came.total() - sum(sent.values()) + missing:,} twice")
    if json_file is not None:
        kept = {"machine": document.machine(), "minutes": minutes, "sent": sent, "came": came, "missing": missing}
        lines = ",\n".join(json.dumps(asdict(one)) for one in samples)  # one a line, for who compares two of them
        json_file.write_text(f'{json.dumps(kept)[:-1]}, "samples": [\n{lines}\n]}}\n')
    grew = grown(samples)
    if grew or missing:
        console.print(f"grew: {', '.join(grew) or 'nothing'}")
        raise typer.Exit(1)


def _run(console: Console, place: Path, seconds: float) -> tuple[list[Sample], dict[str, int], Counter[str], int]:
    ports = {name: free_port() for name in ("tcp", "http", "ws", "peer")}
    flow = write_flow(place, FLOW, {name: f"127.0.0.1:{port}" for name, port in ports.items()})
    (place / "in").mkdir()
    with Server(flow, place) as server, Progress(console=console, refresh_per_second=1) as progress:
        server.start()
        server.wait_for("ready")
        watch = Watch(server.pid, place)
        order = json.dumps(ports | {"directory": str(place / "in"), "seconds": seconds})
        task = progress.add_task("mixed load", total=seconds)
        with subprocess.Popen([sys.executable, "-m", "bench.steady.load", order], stdout=subprocess.PIPE) as load:
            while load.poll() is None:
                try:
                    load.wait(LOOK)
                except subprocess.TimeoutExpired:
                    progress.update(task, completed=watch.look().seconds)
            assert load.stdout is not None
            told = load.stdout.read()
        if load.returncode:
            raise typer.Exit(2)
        sent: dict[str, int] = json.loads(told)
        code = server.stop()
        watch.read()
        if code:
            console.print(f"the daemon ended with {code}\n{server.last_words()}")
            raise typer.Exit(2)
    return watch.samples, sent, watch.came, sum(sent.values()) - watch.seen.count(1)


if __name__ == "__main__":
    typer.run(main)
