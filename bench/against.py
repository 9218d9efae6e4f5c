"""`python -m bench --against REV`: an older checkout and this one in turn, row by row, and what this one comes to.

Both run with the packages of this environment, the flow files and the load generator of this checkout: only walflow
itself differs. Each row is measured for both one right after the other, and the ratio of such a pair is what counts:
the machine's mood is the same for both. Who is first changes from round to round.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.cases import CASES, LATENCY, Figures, Loaded, Timing, scratch
from bench.systems import Walflow, WrongResult
from demo.server import Program, ServerFailed

QUICK: Final = ("file", "echo", "filter", "patch", "plain", "single-echo")  # keys of the rows that run by default


class NoCheckout(Exception):
    """The older walflow cannot be had. The text says why."""


@dataclass
class Comparison:
    """One row. `pairs`: figures of the older one and of this one, of each round. `missing`: why there are none."""

    name: str
    figure: str  # which of the figures counts
    pairs: list[tuple[Figures, Figures]] = field(default_factory=list[tuple[Figures, Figures]])
    missing: str | None = None

    @property
    def ratios(self) -> list[float]:
        """Of each round; above 1 this one is better."""
        return [self._better(before[self.figure], now[self.figure]) for before, now in self.pairs]

    def _better(self, before: float, now: float) -> float:
        return now / before if self.figure == "events_per_second" else before / now

    def is_below(self, floor: float) -> bool:
        """A row that could not be measured is below any."""
        return not self.pairs or median(self.ratios) < floor


def rows(only: str) -> list[Loaded]:
    """walflow's own; without `only` those that say most in the least time.
    `only` may be keys, with commas between."""
    ours = [case for case in CASES if isinstance(case, Loaded) and isinstance(case.system, Walflow)]
    keys = only.split(",") if only else QUICK
    if all(any(case.key == key for case in ours) for key in keys):
        return [case for case in ours if case.key in keys]
    return [case for case in ours if any(only in said for said in (case.name, case.key, case.table))]


@contextmanager
def checked_out(repository: Path, revision: str) -> Generator[Path]:
    """A worktree of that revision, in a temporary place; it is removed afterwards. Raises NoCheckout."""
    with tempfile.TemporaryDirectory(prefix="walflow-bench-") as place:
        tree = Path(place) / "walflow"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), f"{revision}^{{commit}}")
        try:
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(repository: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoCheckout(f"git does not run: {error.strerror}") from None
    if done.returncode:
        raise NoCheckout(f"git {arguments[0]} {arguments[1]}: {done.stderr.strip().splitlines()[-1]}")


def program(tree: Path, place: Path) -> Program:
    """That checkout's walflow in this environment. What is installed here has entry points of another checkout; a
    description beside it has its own, and comes first. Raises NoCheckout."""
    try:
        project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    except (OSError, ValueError, KeyError) as error:
        raise NoCheckout(f"{tree} is no checkout of walflow: {error}") from None
    described = place / "walflow-0.dist-info"  # the version is written nowhere in a checkout
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: walflow\nVersion: 0\n")
    groups = project.get("entry-points", {})
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in groups[group].items()) for group in groups
    ]
    (described / "entry_points.txt").write_text("\n".join(lines))
    environment = os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{tree}"}
    found = Program((sys.executable, "-P", "-m", "walflow"), environment)
    _check(tree, found)
    return found


def _check(tree: Path, found: Program) -> None:
    """Or the comparison would be one of this checkout with itself."""
    command = [sys.executable, "-P", "-c", "import walflow; print(walflow.__file__)"]
    done = subprocess.run(command, env=dict(found.environment or {}), capture_output=True, text=True, check=False)
    if done.returncode or not Path(done.stdout.strip()).is_relative_to(tree.resolve()):
        said = (done.stderr.strip().splitlines() or [f"{done.stdout.strip()} is imported"])[-1]
        raise NoCheckout(f"the walflow of {tree} cannot be imported: {said}")


def compare(
    cases: Sequence[Loaded], older: Program, this: Program, rounds: int, timing: Timing, place: Path, console: Console
) -> list[Comparison]:
    found = {case.key: Comparison(_title(case), _figure(case)) for case in cases}
    for number in range(rounds):
        turn = number % len(cases)
        for case in (*cases[turn:], *cases[:turn]):
            row = found[case.key]
            if row.missing is None:
                said = _measure(row, case, older, this, timing, place, older_first=number % 2 == 0)
                console.print(escape(f"round {number + 1}: {_title(case)}: {said}"))
    return list(found.values())


def _title(case: Loaded) -> str:
    return f"{case.name} ({case.key})"  # the same flow stands in several tables


def _figure(case: Loaded) -> str:
    return "p50_us" if case.table == LATENCY else "events_per_second"


def _measure(
    row: Comparison, case: Loaded, older: Program, this: Program, timing: Timing, place: Path, *, older_first: bool
) -> str:
    """What to say of it."""
    sides = {"the older one": older, "this one": this}
    figures: dict[str, Figures] = {}
    for side in sides if older_first else reversed(sides):
        assert isinstance(case.system, Walflow)
        os.sync()  # none writes back what the other has written
        try:
            with scratch(place) as workdir:
                figures[side] = replace(case, system=case.system.run_by(sides[side])).measure(workdir, timing)
            if not figures[side][row.figure]:
                raise WrongResult("nothing came back in the time that is measured; --seconds makes it longer")
        except (WrongResult, ServerFailed, OSError, subprocess.SubprocessError) as error:
            row.pairs.clear()
            row.missing = f"{side} failed: {error}"
            return row.missing
    row.pairs.append((figures["the older one"], figures["this one"]))
    return f"{row.ratios[-1]:.3f}"


def table(found: Iterable[Comparison], revision: str, floor: float) -> Table:
    made = Table(box=None, padding=(0, 3, 0, 0))
    heads = ("", escape(revision), "this", "this ÷ that", "min-max", "CPU ÷", "")
    for number, title in enumerate(heads):
        made.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in found:
        made.add_row(escape(row.name), *_cells(row, floor))
    return made


def _cells(row: Comparison, floor: float) -> tuple[str, ...]:
    if not row.pairs:
        return ("", "", "", "", "", "not measured")
    before, now = (median(pair[side][row.figure] for pair in row.pairs) for side in (0, 1))
    cpu = median(now["cpu_us_per_event"] / max(before["cpu_us_per_event"], 1e-9) for before, now in row.pairs)
    unit = " µs" if row.figure == "p50_us" else "/s"
    return (
        f"{before:,.0f}{unit}",
        f"{now:,.0f}{unit}",
        f"{median(row.ratios):.3f}",
        f"{min(row.ratios):.3f}-{max(row.ratios):.3f}",
        f"{cpu:.3f}",
        f"below {floor:g}" if row.is_below(floor) else "",
    )
