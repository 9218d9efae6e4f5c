"""`python -m tests.faults`: each fault everywhere, with figures. Ends with a traceback where a promise is broken."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from tests.faults import failures, flips, kills, mangled
from tests.faults.damage import small_logs
from tests.faults.lives import counts, every, nursery, points, scripts

BLOCKS: Final = 40  # of a life

Row = tuple[str, Counter[str]]
One = TypeVar("One")


def chosen(all_of_them: Mapping[str, One], only: str) -> Iterator[tuple[str, One]]:
    return ((name, one) for name, one in all_of_them.items() if only in name)


def flipped(only: str) -> Iterator[Row]:
    for name, small in chosen(small_logs(), only):
        bits = track(list(flips.every_bit(small)), name, console=CONSOLE)
        found = flips.sweep(small, bits)
        yield name, Counter({f"{kind}: {outcome}": count for (kind, outcome), count in found.items()})


def cut(only: str) -> Iterator[Row]:
    for name, small in chosen(small_logs(), only):
        all_of_it = [*mangled.cut_anywhere(small), *mangled.whole_files(small)]
        yield name, mangled.sweep(small, track(all_of_it, name, console=CONSOLE))


def killed(only: str) -> Iterator[Row]:
    with nursery() as lives, tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "strace")
        for name, script in chosen(scripts(lives, Path(directory), BLOCKS), only):
            at = points(counts(lives, script, log), every)
            yield name, sum(kills.sweep(lives, script, track(at, name, console=CONSOLE), log), Counter())


def failed(only: str) -> Iterator[Row]:
    with nursery() as lives, tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "strace")
        for name, script in chosen(scripts(lives, Path(directory), BLOCKS), only):
            made = counts(lives, script, log)
            names = (*failures.FAILING, *failures.FAILING_NAMES)
            at = points({call: made[call] for call in names if call in made}, every)
            yield name, sum(failures.sweep(lives, script, track(at, name, console=CONSOLE), log), Counter())


FAULTS: Final[dict[str, Callable[[str], Iterator[Row]]]] = {
    "flips": flipped,
    "mangled": cut,
    "kills": killed,
    "failures": failed,
}
CONSOLE: Final = Console()


def main(
    faults: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(FAULTS)}. Default: all.")] = None,
    only: Annotated[str, typer.Option(help="Logs, or lives, whose name has this in it.")] = "",
) -> None:
    for fault in faults or FAULTS:
        started = time.monotonic()
        for name, found in FAULTS[fault](only):
            figures = ", ".join(f"{count:,} {what}" for what, count in sorted(found.items()))
            CONSOLE.print(f"{fault}, {name}: {figures} ({time.monotonic() - started:.0f} s)", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
