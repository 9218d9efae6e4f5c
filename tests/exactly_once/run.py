"""One run: a log of numbered events, a Spark job, and kills."""

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.exactly_once.points import DAEMON, POINTS, Files, Point, Scene, during_read
from tests.exactly_once.wire_tap import WireTap
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given
from tests.system.process import Process

ROWS: Final = 1000  # events a batch
BATCHES: Final = 3  # that a life may finish before it is killed, about
PATIENCE: Final = 240.0  # seconds for what takes Spark ten on a quiet machine


class Kill(NamedTuple):
    point: str
    proof: str


class Found(NamedTuple):
    """What Spark reads from its table."""

    rows: int
    distinct: int
    first: int
    last: int
    positions: int


class Job(Process):
    """The Spark job's processes."""

    def __init__(self, lake: Lake, port: int, here: Path, what: str, *, files: bool = True) -> None:
        (here / "started").unlink(missing_ok=True)
        arguments = [str(port), str(lake.state / "token"), str(here), str(ROWS), what, str(files)]
        super().__init__(
            [sys.executable, str(Path(__file__).with_name("job.py")), *arguments],
            environment={"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def finish(self) -> str:
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        finally:
            self.kill()
        assert self.process.returncode == 0, err.decode()[-4000:]
        return str(out.decode().splitlines()[-1])


def run(here: Path, kills: int, tell: Callable[[Kill], None] = lambda kill: None) -> tuple[list[Kill], int, Found]:
    """`kills` at each point. Returns them, how many events there were, and what Spark reads in the end."""
    events = ROWS * BATCHES * (kills * (len(POINTS) + 1) + 2)
    with Lake(here, [Given(tuple(line.encode() for line in numbered(events)))]) as lake:
        tap = WireTap(lake.port)
        done: list[Kill] = []
        try:
            for point in [*POINTS] * kills:
                done.append(Kill(point.name, _kill_spark(lake, tap, here, point)))
                tell(done[-1])
            for proof in _kill_daemon(lake, tap, here, kills):
                done.append(Kill(DAEMON, proof))
                tell(done[-1])
            tap.hook = lambda direction, kind, frame: frame
            found = Found(*json.loads(Job(lake, tap.port, here, "finish").finish()))
        finally:
            tap.close()
    return done, events, found


def _kill_spark(lake: Lake, tap: WireTap, here: Path, point: Point) -> str:
    tap.hook = lambda direction, kind, frame: frame
    files = Files(here)
    job = Job(lake, tap.port, here, "run", files=point.files)
    try:
        scene = Scene(files, tap, lambda: job.signal(signal.SIGSTOP), lambda: job.signal(signal.SIGCONT), job.alive)
        return point.reach(scene, files.planned + 2)
    finally:
        job.kill()


def _kill_daemon(lake: Lake, tap: WireTap, here: Path, kills: int) -> list[str]:
    """All in one life of Spark, which is not told: it asks again."""
    files = Files(here)
    tap.hook = lambda direction, kind, frame: frame
    job = Job(lake, tap.port, here, "run", files=False)
    proofs: list[str] = []
    try:
        for _ in range(kills):
            scene = Scene(files, tap, lake.kill, lambda: None, job.alive)
            served = files.finished
            proofs.append(during_read(scene, files.planned + 1))
            tap.hook = lambda direction, kind, frame: frame
            lake.start()
            deadline = time.monotonic() + PATIENCE
            while files.finished <= served:
                assert job.alive(), "Spark ended with its daemon"
                assert time.monotonic() < deadline, "Spark did not go on with the daemon that came back"
                time.sleep(0.01)
    finally:
        job.kill()
    return proofs
