"""`python -m bench`: runs all cases in turn, round after round, and prints medians."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.cases import CASES, Case
from bench.load import Result
from bench.report import Rounds, figures, ratios, write_json
from bench.systems import WrongResult
from demo.server import ROOT, ServerFailed

WORK: Final = ROOT / "bench" / ".work"  # beside the sources: temporary directories are often in memory
NEEDED: Final = 8 << 30  # bytes free


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    seconds: Annotated[float, typer.Option(min=0.2, help="Measured, each run.")] = 5,
    warmup: Annotated[float, typer.Option(min=0, help="Seconds before, each run.")] = 1.5,
    only: Annotated[str, typer.Option(help="Cases whose name contains this.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results there.")] = None,
) -> None:
    """Events a second, CPU per event and memory: walflow beside others, in turns."""
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 240)
    cases = [case for case in CASES if only in case.name]
    if not cases:
        console.print(f"no system has {escape(only)!r} in its name")
        return
    WORK.mkdir(exist_ok=True)
    if shutil.disk_usage(WORK).free < NEEDED:
        console.print(f"{WORK} needs {NEEDED >> 30} GiB of free disk")
        raise typer.Exit(2)
    absent = {case.name: reason for case in cases if (reason := case.system.absent()) is not None}
    disk = _fdatasync()
    try:
        results = _rounds(console, [case for case in cases if case.name not in absent], rounds, seconds, warmup)
    except (WrongResult, ServerFailed) as error:
        console.print(f"[bold red]{error}[/]", markup=True)
        raise typer.Exit(1) from None
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    _print(console, cases, results, absent, disk, rounds, seconds)
    if json_file is not None:
        write_json(json_file, cases, results, absent, disk)


def _rounds(console: Console, cases: list[Case], rounds: int, seconds: float, warmup: float) -> Rounds:
    results: Rounds = {case.name: [] for case in cases}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=rounds * len(cases))
        for number in range(rounds):
            turn = number % len(cases)  # who begins has no advantage
            for case in (*cases[turn:], *cases[:turn]):
                progress.update(task, description=case.name)
                result = _run(case, seconds, warmup)
                results[case.name].append(result)
                progress.advance(task)
                if not console.is_terminal:
                    console.print(f"round {number + 1}: {case.name}: {result.events_per_second:,.0f} events/s")
    return results


def _run(case: Case, seconds: float, warmup: float) -> Result:
    workdir = Path(tempfile.mkdtemp(dir=WORK))
    os.sync()  # nobody writes back what another has written
    try:
        with case.system.running(workdir) as target:
            order = {"load": asdict(case.load), "target": asdict(target), "warmup": warmup, "seconds": seconds}
            result = _generate(case, order)
        if result.returned != result.sent:
            raise WrongResult(f"{case.name}: {result.sent:,} events were sent, {result.returned:,} came back")
        case.system.verify(workdir, result.sent)
        return result
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _generate(case: Case, order: dict[str, object]) -> Result:
    command = [sys.executable, "-m", "bench.load", json.dumps(order)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongResult(f"{case.name}: {done.stderr.strip()}")
    return Result(**json.loads(done.stdout))


def _fdatasync() -> str:
    """What a sync of a small append costs on this disk."""
    times: list[float] = []
    with tempfile.NamedTemporaryFile(dir=WORK) as file:
        for _ in range(100):
            os.write(file.fileno(), bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return f"fdatasync of 4 KiB: median {statistics.median(times) * 1e6:.0f} µs"


def _print(
    console: Console,
    cases: list[Case],
    results: Rounds,
    absent: dict[str, str],
    disk: str,
    rounds: int,
    seconds: float,
) -> None:
    console.print(
        f"\n100-byte lines of JSON at saturation over one connection unless named; medians of {rounds} rounds of {seconds:g} s, "
        f"systems in turn.\nCPUs: {os.cpu_count()}, shared with the load generator; {disk}. Everything sent came back "
        "and was compared.\n"
    )
    console.print(figures(cases, results, absent))
    console.print("\nwithin each round, median (min-max):\n")
    console.print(ratios(cases, results))
    for name, reason in absent.items():
        console.print(f"\n{name}: {reason}")


if __name__ == "__main__":
    typer.run(main)
