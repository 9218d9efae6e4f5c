"""`python -m tests.mutation`: do the tests bite? Every call that reaches a `Disk` and every comparison in the log's
engine, in what sends from it, and in the file sink's sidecar is changed, one at a time, in a copy of the source; some
test must turn red.

Ends with 1 where a mutant lives that survivors.toml does not explain, or where that explains one that is killed or is
no more."""

from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.mutation.reach import TESTS
from tests.mutation.results import Results
from tests.mutation.rows import Row, table
from tests.mutation.run import Run, Wrong
from tests.mutation.survivors import explained, stale

SAVE_SECONDS: Final = 10.0
TOOLS: Final = ("range_reader", "tools")

CONSOLE = Console(soft_wrap=True, highlight=False)


def main(
    only: Annotated[list[str] | None, typer.Option(help="Rows whose key has this in it: a file, a function.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="The table, and nothing is run.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="So many of those that wait, 0 for all.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    state: Annotated[str, typer.Option(help="What is known: it goes on from there.")] = ".mutation.json",
    tests: Annotated[list[str] | None, typer.Option(help="These files or folders of tests alone.")] = None,
    seconds: Annotated[float, typer.Option(help="Of tests, for each mutant; the next run goes on. 0: all.")] = 60.0,
    again: Annotated[bool, typer.Option(help="Survivors too, with all tests.")] = False,
) -> None:
    whole = table()
    rows = [row for row in whole if not only or any(word in row.key for word in only)]
    if list_:
        _list(rows)
        return
    try:
        results = Results.load(state)
    except (OSError, msgspec.MsgspecError) as error:
        raise typer.BadParameter(f"{state} is no state of a run: {error}", param_hint="--state") from error
    results.forget_old()
    try:
        if again:
            results.rows = {key: result for key, result in results.rows.items() if result.killed}
        _try(
            results,
            Run(results, jobs, tests or TESTS, seconds),
            [row for row in rows if not row.reason],
            limit,
            state,
        )
    except KeyboardInterrupt:
        CONSOLE.print("stopped; the same command goes on from here")
    except Wrong as wrong:
        CONSOLE.print(str(wrong), style="red", markup=False)
        raise typer.Exit(2) from wrong
    finally:
        results.save(state)
    raise typer.Exit(_report(results, rows, stale(whole)))


def _list(rows: list[Row]) -> None:
    for row in rows:
        why = f"   left out: {row.reason}" if row.reason else ""
        CONSOLE.print(f"{row.place} {row.kind} in {row.function}: {row.what} -> {row.becomes}{why}", markup=False)
    CONSOLE.print(f"{len(rows)} rows, {sum(bool(row.reason) for row in rows)} of them left out")


def _try(results: Results, run: Run, rows: list[Row], limit: int, state: str) -> None:
    with CONSOLE.status("which test reaches what"):
        run.reach()
    results.save(state)
    waiting = sorted((row for row in rows if results.waits(row)), key=_rank)
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=CONSOLE, refresh_per_second=2) as progress:
        survived, saved = 0, progress.get_time()
        task = progress.add_task("", total=len(waiting[: limit or None]))

        def tick(row: Row) -> None:
            nonlocal survived, saved
            survived += not results.rows[row.key].killed
            if not results.rows[row.key].killed:
                progress.console.print(f"lives: {row.place} {row.key}", markup=False)
            progress.update(task, advance=1, description=f"{survived} live; {row.place}")
            if progress.get_time() - saved > SAVE_SECONDS:
                saved = progress.get_time()
                results.save(state)

        run.all(waiting[: limit or None], tick)


def _rank(row: Row) -> tuple[bool, bool]:
    """What loses events first, then what only looks."""
    return row.kind == "comparison", any(f"/{tool}" in row.file for tool in TOOLS)


def _report(results: Results, rows: list[Row], gone: list[str]) -> int:
    why = explained()
    tried = [row for row in rows if not row.reason]
    left = [row for row in tried if row.key not in results.rows]
    known = {row.key: results.rows[row.key] for row in tried if row.key in results.rows}
    lives = [key for key, result in known.items() if not result.killed]
    grid = Table("", "mutants", "killed", "by a hang", "explained", "live", "left")
    for kind in ("call", "order", "comparison"):
        keys = [row.key for row in tried if row.kind == kind]
        found = [known[key] for key in keys if key in known]
        unexplained = sum(key in lives and key not in why for key in keys)
        grid.add_row(
            kind,
            *(
                f"{count:,}"
                for count in (
                    len(keys),
                    sum(bool(one.killed) for one in found),
                    sum(one.hangs for one in found),
                    sum(key in lives and key in why for key in keys),
                    unexplained,
                    len(keys) - len(found),
                )
            ),
        )
    CONSOLE.print(grid)
    CONSOLE.print(
        f"{sum(one.seconds for one in known.values()):,.0f} s; {len(rows) - len(tried)} left out, see --list"
    )
    problems = [f"lives, and nothing explains it: {key}" for key in lives if key not in why]
    problems += [
        f"is explained, and killed by {known[key].killed}: {key}" for key in why if key in known and known[key].killed
    ]
    problems += [f"is explained, and is no row of the table any more: {key}" for key in gone]
    for problem in problems:
        CONSOLE.print(problem, style="red", markup=False)
    return 1 if problems or left else 0


if __name__ == "__main__":
    typer.run(main)
