"""`python -m bench`: runs all cases in turn, round after round, and prints medians."""

import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from bench import against, document, report
from bench.cases import CASES, LAG, RESTART, Timing
from bench.document import Document, Row
from bench.rounds import FAILED, in_turn
from bench.unpacked import REDIS, RSYSLOG, version
from demo.server import ROOT

WORK: Final = ROOT / "bench" / ".work"  # beside the sources: temporary directories are often in memory
NEEDED: Final = 16 << 30  # bytes free
NEEDED_AGAINST: Final = 4 << 30  # there is no backlog of 10 GB among its rows, as in a run of some rows
FILES: Final = 4096  # open at once, for a thousand connections
WIDE: Final = 240  # columns, where there is no terminal


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    seconds: Annotated[float, typer.Option(min=0.2, help="Measured, each run.")] = 3,
    warmup: Annotated[float, typer.Option(min=0, help="Seconds before, each run.")] = 1,
    only: Annotated[str, typer.Option(help="Cases whose name or table contains this.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results there.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Print such a file, run nothing.")] = None,
    into: Annotated[Path | None, typer.Option(help="A page that has the rows between its markers.")] = None,
    revision: Annotated[
        str, typer.Option("--against", help="A commit: its walflow and this one in turn, and their ratios.")
    ] = "",
    floor: Annotated[
        float, typer.Option(min=0, help="With --against: a row whose median ratio is below it ends the run with 1.")
    ] = 0.95,
) -> None:
    """Events a second, CPU, memory, latency and space: walflow beside others, in turns."""
    console = Console(highlight=False, soft_wrap=True, width=None if os.isatty(1) else WIDE)
    if revision:
        raise typer.Exit(_against(console, revision, rounds, Timing(warmup, seconds), only, floor))
    if markdown_file is None:
        found = _measured(console, rounds, Timing(warmup, seconds), only)
        if found is None:
            return
        for part in report.terminal(found):
            console.print(escape(part) if isinstance(part, str) else part)
        if json_file is not None:
            document.write(json_file, found)
            found = document.read(json_file)  # with Spark's, where they are there
        if any(row.missing is not None and row.missing.startswith(FAILED) for row in found.cases):
            raise typer.Exit(1)
    else:
        found = _read(console, markdown_file)
        if into is None:
            print(report.markdown(found), end="")
    if into is not None:
        _put_into(console, into, found)


def _against(console: Console, revision: str, rounds: int, timing: Timing, only: str, floor: float) -> int:
    """The exit code."""
    cases = against.rows(only)
    if not cases:
        console.print(f"no row of walflow's own has {escape(only)!r} in its name")
        return 2
    _prepare(console, NEEDED_AGAINST)
    try:
        with against.checked_out(ROOT, revision) as tree:
            older = against.program(tree, tree.parent / "older")
            this = against.program(ROOT, tree.parent / "this")
            found = against.compare(cases, older, this, rounds, timing, WORK, console)
    except against.NoCheckout as error:
        console.print(escape(f"{revision}: {error}"))
        return 2
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    console.print(against.table(found, revision, floor))
    return 1 if any(row.is_below(floor) for row in found) else 0


def _prepare(console: Console, needed: int) -> None:
    """Raises typer.Exit."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing is left behind
    _allow_files()
    WORK.mkdir(exist_ok=True)
    if shutil.disk_usage(WORK).free < needed:
        console.print(f"{WORK} needs {needed >> 30} GiB of free disk")
        raise typer.Exit(2)


def _measured(console: Console, rounds: int, timing: Timing, only: str) -> Document | None:
    """Raises typer.Exit."""
    cases = [case for case in CASES if any(only in said for said in (case.name, case.key, case.table))]
    if not cases:
        console.print(f"no system has {escape(only)!r} in its name")
        return None
    _prepare(console, NEEDED if any(case.table in (LAG, RESTART) for case in cases) else NEEDED_AGAINST)
    missing = {case.key: reason for case in cases if (reason := case.absent()) is not None}
    machine = document.machine() | {"rsyslog": version(RSYSLOG), "redis": version(REDIS)}
    try:
        found = in_turn(cases, rounds, timing, WORK, console, missing)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    settings = {"rounds": rounds, "seconds": timing.measured, "warmup": timing.warmup}
    rows = [
        Row(case.key, case.name, case.table, case.baseline, missing.get(case.key), found.get(case.key, []))
        for case in cases
    ]
    return Document(machine, settings, rows)


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
