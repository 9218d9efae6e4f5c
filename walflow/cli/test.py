"""`walflow test`: folders with a pipeline or a flow, an input, and what is expected of it."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from walflow.admin.text import printable
from walflow.cli.engine import engine_option
from walflow.exit_codes import EX_CANTCREAT, EX_DATAERR, EX_FINDINGS, EX_NOINPUT, EX_UNAVAILABLE, EX_USAGE
from walflow.roles import DAEMON

if TYPE_CHECKING:
    from walflow.cases import Case, Judgement, SuiteTest
    from walflow.cases.junit import Timed


T = TypeVar("T", "Case", "SuiteTest")


def run_cases(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Folders that contain cases, at any depth.", show_default=False),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option("--name", "-k", metavar="TEXT", help="Run only cases with this text in their name."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="Run only cases with this tag in case.toml."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Write the actual output into the files of expected output.")
    ] = False,
    engine: Annotated[
        str,
        engine_option("Where pipelines run: in walflow's own nodes, or on Spark."),
    ] = DAEMON,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", help="How the input is cut into micro-batches of Spark. Default: at random."
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="FILE",
            help="The Python interpreter that has pyspark, for --engine spark. Default: the one that runs walflow.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the results to this file, as JUnit's XML."),
    ] = None,
) -> None:
    """Run pipelines and flows with a given input, and compare their output with the expected one.

    A case is a folder with `pipeline.trickle`, `script.tremor` or `flow.troy`, its input (`in.jsonl`), and the
    expected output of each port (`out.jsonl`, `err.jsonl`). With `error.txt`, it has the expected errors of a flow
    that is refused. No file of the flow is opened and nothing is sent: the input takes the place of the connectors,
    and the events set the time.

    With `--engine spark`, all pipelines that Spark can host run in one session, and their input comes in
    micro-batches. What Spark cannot host is listed with the reason, and does not fail the test.

    Exit codes: 0 all results are as expected, 1 a result is not, 65 a case cannot be run, 66 there is no case, 69
    Spark cannot be run.
    """
    from walflow.cases import find, find_suites

    found, suites = find(folders), find_suites(folders)
    cases = list(_chosen(found.cases, name or [], tag or []))
    tests = list(_chosen(suites.tests, name or [], tag or []))
    stray = list(() if name or tag else [*found.bad.values(), *suites.bad.values()])
    if not cases and not tests and not stray:
        raise _end(
            f"no case in {', '.join(map(str, folders))}: a case is a folder with a subject, such as `flow.troy`, and "
            "what goes in; docs/reference/test-folders.md"
            if not found.cases and not suites.tests
            else "no case has that name, or that tag",
            EX_NOINPUT,
        )
    for bad in stray:
        typer.echo("BAD  " + "\n".join(map(printable, str(bad).split("\n"))))
    if update and engine != DAEMON:
        raise _end("--update writes what walflow's own nodes made: take --engine out", EX_USAGE)
    if update:
        raise typer.Exit(_update(cases, failed=bool(stray)))
    if engine == DAEMON:
        timed = list(_judged([*cases, *tests]))
    else:
        timed = list(_judged_on_spark(cases, seed, python or sys.executable))
    if junit is not None:
        _write_junit(junit, timed)
    judged = [one.judgement for one in timed]
    bad_count = sum(one.bad for one in judged) + len(stray)
    typer.echo(_summary(judged, bad_count, sum(one.seconds for one in timed)))
    missing = len(stray) > 0 and not cases and not tests
    raise typer.Exit(
        EX_NOINPUT
        if missing
        else EX_DATAERR
        if bad_count
        else EX_FINDINGS
        if any(one.problems for one in judged)
        else 0
    )


def _chosen(cases: "Sequence[T]", names: Sequence[str], tags: Sequence[str]) -> "Iterator[T]":
    from walflow.cases import BadCase

    for case in cases:
        if names and not any(name in case.name for name in names):
            continue
        try:
            if tags and not any(tag in case.tags for tag in tags):
                continue
        except BadCase:
            pass  # it is said when its turn comes
        yield case


def _judged(cases: "Sequence[Case | SuiteTest]") -> "Iterator[Timed]":
    from walflow.cases import judge
    from walflow.cases.junit import Timed

    with _progress(len(cases)) as bar:
        task = bar.add_task("testing", total=len(cases))
        for case in cases:
            begin = time.perf_counter()
            judgement = judge(case)
            yield Timed(judgement, time.perf_counter() - begin)
            bar.advance(task)
            if judgement.problems:
                bar.stop()  # else it would stand between the lines
                _tell(judgement)
                bar.start()


def _judged_on_spark(cases: "Sequence[Case]", seed: int | None, python: str) -> "Iterator[Timed]":
    from walflow.cases.junit import Timed
    from walflow.cases.second_host import NoSpark, judge_on_spark

    begin = time.perf_counter()
    seed = randbits(32) if seed is None else seed
    try:
        judged = list(judge_on_spark(cases, seed, python))
    except NoSpark as error:
        raise _end(f"Spark: {error}", EX_UNAVAILABLE) from None
    for one in judged:
        _tell(one)
    for one in judged:
        if one.left_out is not None:
            typer.echo(f"OUT  {printable(one.case.name)}: {printable(one.left_out)}")
    seconds = (time.perf_counter() - begin) / max(len(judged), 1)
    yield from (Timed(one, seconds) for one in judged)


def _tell(judgement: "Judgement") -> None:
    if judgement.problems:
        typer.echo(f"{'BAD ' if judgement.bad else 'FAIL'} {printable(judgement.case.name)}")
        for line in judgement.problems:
            typer.echo(f"  {printable(line)}")


def _progress(count: int) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("testing"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _update(cases: "Sequence[Case]", *, failed: bool) -> int:
    from walflow.cases import BadCase, update

    written = 0
    for case in cases:
        try:
            for path in update(case):
                typer.echo(f"written: {printable(str(path))}")
                written += 1
        except BadCase as bad:
            failed = True
            typer.echo(f"BAD  {printable(str(bad))}")
    count = f"{written} {'file' if written == 1 else 'files'} written"
    typer.echo(count if written else "nothing to write: all is as expected")
    return EX_DATAERR if failed else 0


def _summary(judged: "Sequence[Judgement]", bad: int, seconds: float) -> str:
    failed = sum(bool(one.problems) and not one.bad for one in judged)
    left_out = sum(one.left_out is not None for one in judged)
    passed = sum(not one.problems for one in judged) - left_out
    counts = [(passed, "passed"), (failed, "failed"), (bad, "cannot be run"), (left_out, "not for Spark")]
    shown = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"{shown}; {sum(one.events for one in judged)} events, {seconds:.2f} s"


def _write_junit(path: Path, timed: "Sequence[Timed]") -> None:
    from walflow.cases.junit import junit

    try:
        path.write_bytes(junit(timed))
    except OSError as error:
        raise _end(f"--junit {path}: {error.strerror}", EX_CANTCREAT) from None


def _end(line: str, code: int) -> typer.Exit:
    typer.echo(f"walflow: {printable(line)}", err=True)
    return typer.Exit(code)
