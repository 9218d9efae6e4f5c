"""`python -m tests.proof.soak --minutes N`: stories of power cuts for as long as one likes.

It goes on where it ended (`--state`), and tells no story twice. Two stories have different events, so they have no
image in common but the few in which there is no event yet.
"""

import gc
import importlib
import signal
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from random import Random
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.proof.judge import Broken
from tests.proof.ledger import Ledger, Row
from tests.proof.proof import Proof, Story

Source = Callable[[int], Story]

OURS: Final = (
    "tests.proof.stories",
    "tests.proof.scripts",
    "tests.proof.laned",
    "tests.proof.arrived",
    "tests.proof.imports",
    "tests.proof.relayed",
    "tests.proof.sidecar",
    "tests.proof.repair_promises",
)
SAVE_SECONDS: Final = 5.0
A_MOMENT: Final = 1e-3

Told = tuple[str, Row | None, str]  # the kind of story; what it adds to the ledger, or else the line that is wrong


def sources_of(module: str) -> Mapping[str, Source]:
    """What a module that has stories says in `SOURCES`: by name, a story for each seed."""
    found: Mapping[str, Source] = importlib.import_module(module).SOURCES
    return found


def tell(module: str, source: str, seed: int) -> Told:
    """One story, cut at every operation. Runs in a process of its own, so it raises nothing."""
    story = sources_of(module)[source](seed)
    started = time.process_time()
    try:
        row = Proof(story, Random(seed)).run()
    except Broken as broken:
        return story.kind, None, f"{broken}; again: --only {source} --seed {seed}"
    row.seconds = time.process_time() - started
    return story.kind, row, ""


def _begin_process(modules: Collection[str]) -> None:
    """Ctrl-C goes to all processes of a terminal, and is the first one's to answer. SIGTERM goes to that one alone.
    The collector of garbage need not look at the modules again and again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for module in modules:
        sources_of(module)
    gc.collect()
    gc.freeze()


class Soak:
    """Keeps `jobs` processes busy, each source as long as the others."""

    def __init__(self, ledger: Ledger, sources: dict[str, str], jobs: int) -> None:
        self.ledger = ledger
        self._modules = sources
        self._jobs = jobs
        self._spent = dict.fromkeys(sources, 0.0)  # seconds of a processor
        self._running: dict[Future[Told], str] = {}

    def run(self, seconds: float, tick: Callable[[float], None]) -> None:
        """For so long, or until a promise is broken; what has begun is ended. `tick` is told how long it ran."""
        started, before = time.monotonic(), self.ledger.seconds
        modules = sorted(set(self._modules.values()))
        with ProcessPoolExecutor(self._jobs, initializer=_begin_process, initargs=(modules,)) as pool:
            while True:
                elapsed = time.monotonic() - started
                self.ledger.seconds = before + elapsed
                tick(elapsed)
                while len(self._running) < self._jobs and elapsed < seconds and not self.ledger.broken:
                    self._begin(pool)
                if not self._running:
                    return
                for future in wait(self._running, 1.0, FIRST_COMPLETED).done:
                    self._end(future)

    def _begin(self, pool: ProcessPoolExecutor) -> None:
        source = min(self._modules, key=lambda name: self._spent[name])
        self._spent[source] += A_MOMENT  # so that one that has just begun is not chosen again
        future = pool.submit(tell, self._modules[source], source, self.ledger.take(source))
        self._running[future] = source

    def _end(self, future: Future[Told]) -> None:
        source = self._running.pop(future)
        kind, row, wrong = future.result()
        if row is None:
            self.ledger.broken.append(wrong)
            return
        self._spent[source] += row.seconds
        self.ledger.add(kind, row)


def soak(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long.")] = 10.0,
    state: Annotated[str, typer.Option(help="The ledger's file: it goes on from there.")] = ".soak.json",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    also: Annotated[list[str] | None, typer.Option(help="A module that has stories too.")] = None,
    only: Annotated[str, typer.Option(help="Stories of this source alone.")] = "",
    seed: Annotated[int, typer.Option(help="With --only: this story, and nothing else.")] = -1,
) -> None:
    """Cuts the power, over and over, and prints a ledger. Exits with 1 where a promise was broken."""
    console = Console()
    modules = {source: module for module in (*OURS, *(also or ())) for source in sources_of(module)}
    if only and only not in modules:
        raise typer.BadParameter(f"there is no {only!r}: {', '.join(modules)}", param_hint="--only")
    if only and seed >= 0:
        raise typer.Exit(_once(console, modules[only], only, seed))
    ledger = _load(state)
    kinds = {source: module for source, module in modules.items() if only in ("", source)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else its processes would stay
    try:
        _watched(console, Soak(ledger, kinds, jobs), minutes * 60, state)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here, without the stories it was at")
    ledger.save(state)
    console.print(ledger.table(), ledger.shares())
    for broken in ledger.broken:
        console.print(broken, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1 if ledger.broken else 0)


def _load(state: str) -> Ledger:
    try:
        return Ledger.load(state)
    except (OSError, msgspec.MsgspecError) as error:
        raise typer.BadParameter(f"{state} is no ledger: {error}", param_hint="--state") from error


def _once(console: Console, module: str, source: str, seed: int) -> int:
    _, row, wrong = tell(module, source, seed)
    console.print(wrong or str(row), markup=False, soft_wrap=True)
    return 1 if wrong else 0


def _watched(console: Console, soaking: Soak, seconds: float, state: str) -> None:
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    saved = 0.0
    with Progress(*columns, console=console, refresh_per_second=2) as progress:
        task = progress.add_task("", total=seconds)

        def tick(elapsed: float) -> None:
            nonlocal saved
            total = soaking.ledger.total
            text = f"{total.distinct:,} distinct images, {total.runs:,} stories, {len(soaking.ledger.broken)} broken"
            progress.update(task, completed=min(elapsed, seconds), description=text)
            if elapsed - saved > SAVE_SECONDS:
                saved = elapsed
                soaking.ledger.save(state)

        soaking.run(seconds, tick)


if __name__ == "__main__":
    typer.run(soak)
