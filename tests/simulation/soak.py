"""`python -m tests.simulation.soak`: story after story, each under its own seed.

It goes on where it ended (`--state`). A story that breaks a promise is printed with its seed, and shrunk: the smaller
one is what a test keeps, in `test_stories.py`.
"""

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.simulation.shrink import shrunk, why
from tests.simulation.story import ENDS, STATES, Story, draw, moments
from tests.simulation.teller import Teller

AT_ONCE: Final = 20  # stories of a task
SAVE_SECONDS: Final = 10.0
ENOUGH: Final = 5_000  # stories after which what never happened is an error
SOMETIMES: Final = (
    *(f"{end} while {state}" for end in ENDS for state in STATES),
    *(
        f"line {line}"
        for line in (
            "breaker triggered",
            "breaker restored",
            "cannot connect",
            "cannot deliver",
            "connector failed",
            "drain ended early",
            "fatal",
            "keys recalled from the log",
            "log time is ahead of the clock, which was set back",
            "log time is more than an hour ahead of the clock",
            "moving again",
            "not ready",
            "recovery",
            "redelivery",
            "rejected",
            "standing still",
            "waits long",
        )
    ),
)
SIMPLE: Final = range(-40, 0)  # seeds of stories that are told before the collector is told to look at nothing older


class Ledger(msgspec.Struct):
    """`met`: how often a step was taken, or a line was logged: what no story ever came to is not tried."""

    next: int = 0
    stories: int = 0
    cpu_seconds: float = 0.0
    virtual_seconds: float = 0.0
    calls: int = 0
    delivered: int = 0
    lives: int = 0
    met: dict[str, int] = {}
    broken: list[str] = []


class Batch(msgspec.Struct):
    stories: int
    cpu_seconds: float
    virtual_seconds: float
    calls: int
    delivered: int
    lives: int
    met: dict[str, int]
    broken: list[str]


def tell(first: int) -> Batch:
    began = time.process_time()
    met: Counter[str] = Counter()
    broken: list[str] = []
    totals = [0.0, 0, 0, 0]
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # the flows that were compiled: each kill of a story looks through all that is not frozen
    for seed in range(first, first + AT_ONCE):
        story = draw(seed)
        teller = Teller(story)
        met.update(f"step {step.what} {step.where}".rstrip() for step in story.steps)
        met.update(moments(story))
        try:
            told = teller.run()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
            broken.append(_said(seed, story, f"{type(error).__name__}: {error}"))
        else:
            totals = [
                totals[0] + told.seconds,
                totals[1] + told.calls,
                totals[2] + told.delivered,
                totals[3] + told.lives,
            ]
        met.update({f"line {line['event']}" for line in teller.lines})
    spent = time.process_time() - began
    return Batch(AT_ONCE, spent, totals[0], int(totals[1]), int(totals[2]), int(totals[3]), dict(met), broken)


def _said(seed: int, story: Story, error: str) -> str:
    small = shrunk(story)
    return f"seed {seed}: {error}\n  {story!r}\n  shrunk, {why(small)}:\n  {small!r}"


def _begin_process() -> None:
    """What lives as long as the process is not looked at by each collection."""
    os.nice(5)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for seed in SIMPLE:
        Teller(draw(seed)).run()
    gc.collect()
    gc.freeze()


def table(ledger: Ledger) -> Table:
    made = Table("", "in all", "a CPU second", title=f"{ledger.stories:,} stories, {len(ledger.broken)} broken")
    rows: Mapping[str, float] = {
        "stories": ledger.stories,
        "processes of a daemon": ledger.lives,
        "events delivered": ledger.delivered,
        "calls of the disk": ledger.calls,
        "seconds in them": ledger.virtual_seconds,
    }
    for name, count in rows.items():
        made.add_row(name, f"{count:,.0f}", f"{count / max(ledger.cpu_seconds, 1e-9):,.1f}")
    return made


def soak(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long.")] = 10.0,
    state: Annotated[Path, typer.Option(help="The ledger's file: it goes on from there.")] = Path(".simulation.json"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="This story alone, with its last lines.")] = -1,
) -> None:
    """Tells stories, and prints what they came to. Exits with 1 where one broke a promise."""
    console = Console()
    if seed >= 0:
        raise typer.Exit(_once(console, seed))
    ledger = msgspec.json.decode(state.read_bytes(), type=Ledger) if state.exists() else Ledger()
    try:
        _run(console, ledger, minutes * 60, jobs, state)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here, without the stories it was at")
    state.write_bytes(msgspec.json.encode(ledger))
    console.print(table(ledger))
    for name, count in sorted(ledger.met.items()):
        console.print(f"{count:8,} {name}", markup=False, highlight=False)
    for broken in ledger.broken:
        console.print(broken, style="red", markup=False, soft_wrap=True)
    never = lacking(ledger)
    for what in never:
        console.print(f"never: {what}", style="red", markup=False)
    raise typer.Exit(1 if ledger.broken or never else 0)


def lacking(ledger: Ledger) -> list[str]:
    """What no story came to, once there were enough of them: it is not tried at all."""
    return [what for what in SOMETIMES if what not in ledger.met] if ledger.stories >= ENOUGH else []


def _once(console: Console, seed: int) -> int:
    story = draw(seed)
    teller = Teller(story)
    console.print(repr(story), markup=False, soft_wrap=True)
    try:
        console.print(str(teller.run()), markup=False)
    except Exception as error:  # noqa: BLE001
        for line in teller.lines:
            console.print(str(line), markup=False, soft_wrap=True)
        console.print(f"{type(error).__name__}: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    return 0


def _run(console: Console, ledger: Ledger, seconds: float, jobs: int, state: Path) -> None:
    began = saved = time.monotonic()
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    running: set[Future[Batch]] = set()
    with (
        Progress(*columns, console=console, refresh_per_second=2) as progress,
        ProcessPoolExecutor(jobs, initializer=_begin_process) as pool,
    ):
        shown = progress.add_task("", total=seconds)
        while (elapsed := time.monotonic() - began) < seconds or running:
            while elapsed < seconds and len(running) < jobs:
                running.add(pool.submit(tell, ledger.next))
                ledger.next += AT_ONCE
            done, running = wait(running, 1.0, FIRST_COMPLETED)
            for future in done:
                _add(ledger, future.result())
            said = f"{ledger.stories:,} stories, {len(ledger.broken)} broken"
            progress.update(shown, completed=min(elapsed, seconds), description=said)
            if time.monotonic() - saved > SAVE_SECONDS:
                saved = time.monotonic()
                state.write_bytes(msgspec.json.encode(ledger))


def _add(ledger: Ledger, batch: Batch) -> None:
    for name in ("stories", "cpu_seconds", "virtual_seconds", "calls", "delivered", "lives"):
        setattr(ledger, name, getattr(ledger, name) + getattr(batch, name))
    ledger.met = dict(Counter(ledger.met) + Counter(batch.met))
    ledger.broken += batch.broken


if __name__ == "__main__":
    typer.run(soak)
