"""Who is measured when, and what becomes of one that fails."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.cases import Case, Figures, Timing, scratch
from bench.systems import WrongResult
from demo.server import ServerFailed

FAILED: Final = "failed"

Rounds = dict[str, list[Figures]]  # by the key of the case, one a round


def in_turn(
    cases: Sequence[Case], rounds: int, timing: Timing, place: Path, console: Console, missing: dict[str, str]
) -> Rounds:
    """One that fails has no figures, not of earlier rounds either, and why stands in `missing`; the others go on."""
    found: Rounds = {case.key: [] for case in cases}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(1 if case.once else rounds for case in cases))
        for number in range(rounds):
            turn = number % len(cases)  # who begins has no advantage
            for case in (*cases[turn:], *cases[:turn]):
                if case.once and number:
                    continue
                progress.update(task, description=escape(case.name))
                if case.key not in missing:
                    _add(found[case.key], case, timing, place, missing)
                progress.advance(task)
                if not console.is_terminal:
                    reason = missing.get(case.key)
                    said = f"round {number + 1}: {case.name}"
                    console.print(escape(said if reason is None else f"{said}: {reason}"))
    return found


def _add(found: list[Figures], case: Case, timing: Timing, place: Path, missing: dict[str, str]) -> None:
    os.sync()  # no system writes back the data of another one
    try:
        with scratch(place) as workdir:
            found.append(case.measure(workdir, timing))
    except (WrongResult, ServerFailed, OSError, subprocess.SubprocessError) as error:
        found.clear()
        missing[case.key] = f"{FAILED}: {error}"
