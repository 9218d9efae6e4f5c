"""`python -m tests.nightly`: the tests of nightly that have not passed on what they reach now, or with --touched
those that a change touches, the nearest first, for as long as --seconds says.

It goes on where it ended. Ends with 1 where a test failed, or, without --touched, where one is missing."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from tests.nightly.choice import SMOKE_SHARE, Change, Touched, fitting, slices, smoke, touched
from tests.nightly.git import Git, Unknown
from tests.nightly.ledger import Ledger
from tests.nightly.run import Run
from tests.nightly.tree import Tree
from tests.nightly.units import PASSES, Uncollected, Unit, units

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ".ci/nightly.json"
BASE: Final = "WALFLOW_BASE"

CONSOLE = Console(soft_wrap=True, highlight=False, markup=False)


def main(
    is_touched: Annotated[bool, typer.Option("--touched", help="Those alone that a change touches.")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="With --touched: after so many, no test begins.")] = 480.0,
    base: Annotated[
        str, typer.Option(envvar=BASE, help="With --touched: the change is what differs from this commit.")
    ] = "",
    only: Annotated[list[str] | None, typer.Option(help="Groups whose pass or file has this in it.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="The ledger as a table, and nothing is run.")] = False,
    fresh: Annotated[bool, typer.Option(help="Begin anew: what has passed until now does not count.")] = False,
    record: Annotated[
        bool, typer.Option("--record", help=f"Write what has passed into {RECORDED}, to be committed.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 3,
    state: Annotated[str, typer.Option(help="The ledger's file: it goes on from there.")] = ".nightly.json",
) -> None:
    path, recorded = ROOT / state, ROOT / RECORDED
    try:
        ledger = Ledger.load(path).with_recorded(Ledger.load(recorded))
    except (OSError, msgspec.MsgspecError) as error:
        raise typer.BadParameter(f"{state} or {RECORDED} is no ledger: {error}", param_hint="--state") from error
    if fresh:
        ledger.begun = datetime.now(UTC).isoformat(timespec="seconds")
        ledger.save(path)
    try:
        counts = units(ROOT)
    except Uncollected as error:
        raise typer.Exit(2) from error
    if record:
        kept = ledger.passed()
        Ledger({str(unit): kept[str(unit)] for unit in counts if str(unit) in kept}).save(recorded)
        CONSOLE.print(f"{RECORDED} has what passed: commit it")
        return
    counts = {unit: count for unit, count in counts.items() if not only or any(word in str(unit) for word in only)}
    if list_:
        tree = Tree.read(ROOT)
        CONSOLE.print(ledger.table(counts, {unit: tree.digest(unit.file) for unit in counts}))
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the tests would go on
    run = Run(ROOT, ledger, lambda: ledger.save(path), jobs)
    try:
        if is_touched:
            missing = False
            _touched(run, ledger, counts, base, jobs, seconds * (1 - SMOKE_SHARE))
        else:
            missing = bool(_whole(run, ledger, counts, jobs))
            if not missing and not only:
                CONSOLE.print(f'make nightly ARGS="--record" writes this into {RECORDED}, for builds to go by')
    except KeyboardInterrupt:
        CONSOLE.print("stopped; the same command goes on from here, without the slice it was at")
        raise typer.Exit(130) from None
    raise typer.Exit(1 if run.failed or missing else 0)


def _whole(run: Run, ledger: Ledger, counts: Mapping[Unit, int], jobs: int) -> list[Unit]:
    """Those that have not passed in the end. A file that changes meanwhile is met by choosing anew; nothing is begun
    twice."""
    tree = Tree.read(ROOT)
    begun: set[Unit] = set()
    missing = _missing(tree, ledger, counts)
    CONSOLE.print(
        f"{len(counts) - len(missing)} of {len(counts)} groups of nightly tests passed before, on what they reach now"
    )
    while todo := [unit for unit in missing if unit not in begun]:
        for one in slices(todo, ledger, counts, jobs):
            CONSOLE.print(
                f"{len(missing) - len(begun)} left; {one.of}, {len(one.targets)} files from {one.targets[0]}"
            )
            outcomes = run.slice(one)
            begun.update(one.units)
            before, tree = tree, tree.again()
            run.note(one.units, outcomes, counts, _unchanged(one.units, before, tree))
            if tree is not before:
                break
        missing = _missing(tree, ledger, counts)
    for unit in missing:
        CONSOLE.print(f"has not passed: {unit}")
    CONSOLE.print(f"{len(counts) - len(missing)} of {len(counts)} groups of nightly tests passed")
    return missing


def _missing(tree: Tree, ledger: Ledger, counts: Mapping[Unit, int]) -> list[Unit]:
    """What a build has left out comes first."""
    found = [unit for unit in counts if not ledger.has_passed(unit, tree.digest(unit.file))]
    return sorted(found, key=lambda unit: (str(unit) not in ledger.left_out, _order(unit)))


def _unchanged(units: Iterable[Unit], before: Tree, after: Tree) -> dict[Unit, str]:
    """The digests of those that reach no file that was changed while they ran."""
    digests = {unit: before.digest(unit.file) for unit in units}
    return {unit: digest for unit, digest in digests.items() if after.digest(unit.file) == digest}


def _order(unit: Unit) -> tuple[int, str]:
    return list(PASSES).index(unit.of), unit.file


def _touched(run: Run, ledger: Ledger, counts: Mapping[Unit, int], base: str, jobs: int, seconds: float) -> None:
    tree = Tree.read(ROOT)
    chosen = touched(counts, tree, ledger, _change(ledger, counts, base))
    run.deadline = time.time() + seconds
    CONSOLE.print(
        f"what changed since {base or 'they last passed'} touches {len(chosen)} of {len(counts)} groups of nightly "
        f"tests; {seconds:.0f} s for them, the nearest first, and for one test of each kind"
    )
    why = {one.unit: one for one in chosen}
    left: list[Touched] = []
    for one in slices([*why], ledger, counts, jobs):
        fits = fitting(one, ledger, jobs, run.deadline - time.time())
        ran = fits.units if fits is not None else ()
        left += [why[unit] for unit in one.units if unit not in ran]
        if fits is None:
            continue
        CONSOLE.print("\n".join(f"touched: {why[unit]}" for unit in fits.units))
        outcomes = run.slice(fits)
        unchanged = _unchanged(fits.units, tree, tree.again())
        left += [why[unit] for unit in run.note(fits.units, outcomes, counts, unchanged)]
    run.deadline = None  # each kind is seen, whatever it takes
    for one in smoke():
        run.slice(one)
    commit = Git(ROOT).head()
    for missed in left:
        ledger.left_out[str(missed.unit)] = commit
        CONSOLE.print(f"left out: {missed}")
    run.save()
    tests = sum(counts[missed.unit] for missed in left)
    CONSOLE.print(
        f"left out for want of time: {len(left)} of {len(chosen)} groups that the change touches, at most {tests} "
        "tests; make nightly runs them"
    )


def _change(ledger: Ledger, counts: Mapping[Unit, int], base: str) -> Change:
    git = Git(ROOT)
    if base:
        try:
            return Change(git.changed(base), {}, named=True)
        except Unknown as error:
            raise typer.BadParameter(
                f"there is no commit {base} in this clone", param_hint=f"--base, {BASE}"
            ) from error
    ran = {unit: entry.commit for unit in counts if (entry := ledger.entries.get(str(unit))) is not None}
    since: dict[str, frozenset[str]] = {}
    for commit in set(ran.values()):
        with contextlib.suppress(Unknown):
            since[commit] = git.changed(commit)
    return Change(git.recent(), {unit: since[commit] for unit, commit in ran.items() if commit in since})


if __name__ == "__main__":
    os.chdir(ROOT)
    typer.run(main)
