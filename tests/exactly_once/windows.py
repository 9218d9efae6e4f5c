"""flows/spark/windows.troy on Spark, with kills at named points: each window comes once, and is what the daemon makes
of it.

`python -m tests.exactly_once.windows --kills 10` kills ten times at each point and prints the ledger; `make soak`
kills twice.
"""

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from tests.exactly_once.points import LOOK, Files
from tests.exactly_once.run import Kill
from tests.jvm import be_short_lived
from tests.system.daemon import Daemon
from tests.system.hosts import driver_of, said, until, wait_gone
from tests.system.process import session_of
from tests.system.test_spark_engine import send
from tests.system.test_spark_windows import errors, flow, in_the_daemon, lines, port, requests, windows

LIFE: Final = 1_000  # events that a life begins with: two batches
PATIENCE: Final = 1500.0  # seconds: runs side by side, on a machine that has other work
BATCH: Final = 500  # and that it gets where no batch stood at the point
WITHIN: Final = "Spark, within a batch"
BETWEEN: Final = "Spark, between two batches"
WORKER: Final = "a Python of the executor, within a batch"
DAEMON: Final = "the daemon, within a batch"
POINTS: Final = (WITHIN, WORKER, BETWEEN, DAEMON)
PYTHON_WORKER: Final = b"pyspark.daemon\0pyspark.worker"


class Ledger(NamedTuple):
    """`windows`, `expected`: of each host, in order. `once`: after all kills of Spark no line had come twice. What
    the daemon sends again behind its log, after it was killed itself, is left out of `windows`."""

    kills: Sequence[Kill]
    events: int
    windows: Mapping[str, Sequence[str]]
    expected: Mapping[str, Sequence[str]]
    errors: int
    expected_errors: int
    once: bool

    @property
    def right(self) -> bool:
        return self.once and (self.windows, self.errors) == (self.expected, self.expected_errors)


class Stream:
    """What is sent to the flow, in its order, to whichever daemon runs."""

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._sent = 0

    def send(self, to: int, count: int | None = None) -> None:
        """None: the rest."""
        end = len(self._given) if count is None else self._sent + count
        send(to, self._given[self._sent : end])
        self._sent = end


def run(
    here: Path, kills: int, points: Sequence[str] = POINTS, tell: Callable[[Kill], None] = lambda kill: None
) -> Ledger:
    given = requests(0, (LIFE + 2 * BATCH) * kills * len(points))
    expected, broken = in_the_daemon(here / "daemon", given)
    there = here / "spark"
    file = flow(there, moved=True)
    files = Files(there, there / "spark" / "requests.by_host" / "checkpoint")
    stream = Stream(given)
    done: list[Kill] = []
    once = True
    daemon = Daemon(file, there)
    try:
        to = port(daemon)
        for point in [*[one for one in points if one != DAEMON] * kills, *[DAEMON] * kills]:
            before = files.planned
            stream.send(to, LIFE)
            _freeze_at(daemon, point, files, before, lambda: stream.send(to, BATCH))  # noqa: B023  # called at once
            if point == DAEMON and DAEMON not in [kill.point for kill in done]:
                once = _once(there)
            done.append(Kill(point, _kill(daemon, point, files)))
            tell(done[-1])
            if point == DAEMON:
                daemon = Daemon(file, there)
                to = port(daemon)
        stream.send(to)
        until(lambda: _count(windows(there)) >= _count(expected), daemon, PATIENCE)
        until(lambda: len(errors(there)) >= len(broken), daemon, PATIENCE)
        code = daemon.terminate()
    finally:
        daemon.close()
    assert code == 0
    return Ledger(done, len(given), windows(there), expected, len(errors(there)), len(broken), once)


def _freeze_at(daemon: Daemon, point: str, files: Files, before: int, send_more: Callable[[], None]) -> None:
    """Stops Spark where a batch behind `before` stands at the point."""
    while True:
        until(partial(_may_stand, daemon, point, files, before), daemon, PATIENCE)
        driver = driver_of(daemon)
        _signal(_all(driver), signal.SIGSTOP)
        within = files.planned > files.finished
        if within == (point != BETWEEN) and (point != WORKER or _workers(driver)):
            return
        missed = files.planned if not within and point != BETWEEN else before
        _signal(_all(driver), signal.SIGCONT)
        if missed > before:
            before = missed
            send_more()
        time.sleep(LOOK)


def _may_stand(daemon: Daemon, point: str, files: Files, before: int) -> bool:
    """Whether it is worth a stop, which costs Spark more time than a look. Also true where the batch is missed."""
    if not said(daemon, "spark running") or files.planned <= before:
        return False
    if files.finished >= files.planned:
        return True
    return point != BETWEEN and (point != WORKER or bool(_workers(driver_of(daemon))))


def _kill(daemon: Daemon, point: str, files: Files) -> str:
    """Returns with what proves that Spark stood there, when what was killed is gone."""
    driver = driver_of(daemon)
    planned = files.planned
    proof = f"offsets/{planned} is there, commits/{planned} is{'' if files.finished == planned else ' not'}"
    if point == WORKER:
        workers = _workers(driver)
        _signal(workers, signal.SIGKILL)
        _signal(_all(driver), signal.SIGCONT)
        until(lambda: files.finished >= planned, daemon, PATIENCE)
        return f"{proof}; {len(workers)} processes killed, and the batch was finished"
    if point == DAEMON:
        daemon.kill()
    else:
        _signal([pid for pid, name in session_of(driver).items() if name == "java"], signal.SIGKILL)
    _signal(_all(driver), signal.SIGCONT)
    wait_gone(driver)
    return proof


def _all(driver: int) -> list[int]:
    return [driver, *session_of(driver)]


def _workers(driver: int) -> list[int]:
    """Pythons that run a task, and the one that they are forked from."""
    found: list[int] = []
    for pid in session_of(driver):
        with suppress(OSError):
            if PYTHON_WORKER in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _once(there: Path) -> bool:
    found = lines(there / "counts.jsonl")
    return len(found) == len(set(found))


def _count(found: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, found.values()))


def several(here: Path, kills: int, jobs: int, tell: Callable[[Kill], None] = lambda kill: None) -> Sequence[Ledger]:
    """The kills at each point, dealt to so many runs side by side:
    a Spark that starts mostly waits for its one thread."""
    shares = [share for share in (kills // jobs + (job < kills % jobs) for job in range(jobs)) if share]
    directories = [here / str(job) for job in range(len(shares))]
    for directory in directories:
        directory.mkdir()
    with ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(partial(run, tell=tell), directories, shares))


def main(
    kills: Annotated[int, typer.Option(min=1, help="At each point.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Runs side by side, which share the kills.")] = 1,
) -> None:
    """Kills Spark, a worker of its, or the daemon, at each named point,
    and compares the windows with those of the daemon."""
    be_short_lived()
    started = time.monotonic()

    def tell(kill: Kill) -> None:
        typer.echo(f"{time.monotonic() - started:6.0f} s  {kill.point}: {kill.proof}")

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        ledgers = several(Path(directory), kills, jobs, tell)
    for point, count in Counter(kill.point for ledger in ledgers for kill in ledger.kills).items():
        typer.echo(f"{count:4} kills: {point}")
    for ledger in ledgers:
        typer.echo(
            f"{ledger.events} events sent; {_count(ledger.windows)} windows, {_count(ledger.expected)} expected; "
            f"{ledger.errors} errors, {ledger.expected_errors} expected; before the daemon was killed "
            f"{'none' if ledger.once else 'SOME'} came twice"
        )
    right = all(ledger.right for ledger in ledgers)
    typer.echo("complete, once and right" if right else "NOT COMPLETE, OR NOT RIGHT")
    raise typer.Exit(0 if right else 1)


if __name__ == "__main__":
    typer.run(main)
