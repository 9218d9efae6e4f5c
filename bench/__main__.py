"""`python -m bench`: runs all cases in turn, round after round, and prints medians."""

import os
import resource
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench import document, report
from bench.cases import CASES, Case, Figures, Timing, scratch
from bench.document import Document, Row
from bench.systems import WrongResult
from bench.unpacked import REDIS, RSYSLOG, version
from demo.server import ROOT, ServerFailed

WORK: Final = ROOT / "bench" / ".work"  # beside the sources: temporary directories are often in memory
NEEDED: Final = 16 << 30  # bytes free
FILES: Final = 4096  # open at once, for a thousand connections
WIDE: Final = 240  # columns, where there is no terminal

Rounds = Mapping[str, list[Figures]]  # by the key of the case, one a round


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    seconds: Annotated[float, typer.Option(min=0.2, help="Measured, each run.")] = 3,
    warmup: Annotated[float, typer.Option(min=0, help="Seconds before, each run.")] = 1,
    only: Annotated[str, typer.Option(help="Cases whose name or key contains this.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results there.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Print such a file, run nothing.")] = None,
    into: Annotated[Path | None, typer.Option(help="A page that has the rows between its markers.")] = None,
) -> None:
    """Events a second, CPU, memory, latency and space: walflow beside others, in turns."""
    console = Console(highlight=False, soft_wrap=True, width=None if os.isatty(1) else WIDE)
    if markdown_file is None:
        found = _measured(console, rounds, Timing(warmup, seconds), only)
        if found is None:
            return
        for part in report.terminal(found):
            console.print(escape(part) if isinstance(part, str) else part)
        if json_file is not None:
            document.write(json_file, found)
            found = document.read(json_file)  # with Spark's, where they are there
    else:
        found = _read(console, markdown_file)
        if into is None:
            print(report.markdown(found), end="")
    if into is not None:
        _put_into(console, into, found)


def _measured(console: Console, rounds: int, timing: Timing, only: str) -> Document | None:
    """Raises typer.Exit."""
    cases = [case for case in CASES if only in case.name or only in case.key]
    if not cases:
        console.print(f"no system has {escape(only)!r} in its name")
        return None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing is left behind
    _allow_files()
    WORK.mkdir(exist_ok=True)
    if shutil.disk_usage(WORK).free < NEEDED:
        console.print(f"{WORK} needs {NEEDED >> 30} GiB of free disk")
        raise typer.Exit(2)
    absent = {case.key: reason for case in cases if (reason := case.absent()) is not None}
    machine = document.machine() | {"rsyslog": version(RSYSLOG), "redis": version(REDIS)}
    try:
        found = _rounds(console, [case for case in cases if case.key not in absent], rounds, timing)
    except (WrongResult, ServerFailed) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(1) from None
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    settings = {"rounds": rounds, "seconds": timing.measured, "warmup": timing.warmup}
    rows = [
        Row(case.key, case.name, case.table, case.baseline, absent.get(case.key), found.get(case.key, []))
        for case in cases
    ]
    return Document(machine, settings, rows)


def _rounds(console: Console, cases: Sequence[Case], rounds: int, timing: Timing) -> Rounds:
    found: Rounds = {case.key: [] for case in cases}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(rounds if not case.once else 1 for case in cases))
        for number in range(rounds):
            turn = number % len(cases)  # who begins has no advantage
            for case in (*cases[turn:], *cases[:turn]):
                if case.once and number:
                    continue
                progress.update(task, description=escape(case.name))
                found[case.key].append(_run(case, timing))
                progress.advance(task)
                if not console.is_terminal:
                    console.print(escape(f"round {number + 1}: {case.name}"))
    return found


def _run(case: Case, timing: Timing) -> Figures:
    os.sync()  # nobody writes back what another has written
    with scratch(WORK) as workdir:
        return case.measure(workdir, timing)


def _allow_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _read(console: Console, file: Path) -> Document:
    try:
        return document.read(file)
    except (OSError, ValueError) as error:
        console.print(escape(str(error)))
        raise typer.Exit(2) from None


def _put_into(console: Console, file: Path, found: Document) -> None:
    try:
        file.write_text(report.page(file.read_text(), found))
    except (OSError, ValueError) as error:
        console.print(escape(f"{file}: {error}"))
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
