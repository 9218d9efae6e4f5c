"""`python -m tests.faults`: each fault everywhere, with figures. Ends with a traceback where a promise is broken."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track

from tests.faults import failures, flips, kills, mangled
from tests.faults.damage import small_logs
from tests.faults.lives import counts, every, nursery, points, scripts

BLOCKS: Final = 40  # of a life

Row = tuple[str, Counter[str]]


def flipped() -> Iterator[Row]:
    for name, small in small_logs().items():
        bits = track(list(flips.every_bit(small)), name, console=CONSOLE)
        found = flips.sweep(small, bits)
        yield name, Counter({f"{kind}: {outcome}": count for (kind, outcome), count in found.items()})


def cut() -> Iterator[Row]:
    for name, small in small_logs().items():
        all_of_it = [*mangled.cut_anywhere(small), *mangled.whole_files(small)]
        yield name, mangled.sweep(small, track(all_of_it, name, console=CONSOLE))


def killed() -> Iterator[Row]:
    with nursery() as lives, tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "strace")
        for name, script in scripts(lives, Path(directory), BLOCKS).items():
            at = points(counts(lives, script, log), every)
            yield name, sum(kills.sweep(lives, script, track(at, name, console=CONSOLE), log), Counter())


def failed() -> Iterator[Row]:
    with nursery() as lives, tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "strace")
        for name, script in scripts(lives, Path(directory), BLOCKS).items():
            made = counts(lives, script, log)
            names = (*failures.FAILING, *failures.FAILING_NAMES)
            at = points({call: made[call] for call in names if call in made}, every)
            yield name, sum(failures.sweep(lives, script, track(at, name, console=CONSOLE), log), Counter())


FAULTS: Final[dict[str, Callable[[], Iterator[Row]]]] = {
    "flips": flipped,
    "mangled": cut,
    "kills": killed,
    "failures": failed,
}
CONSOLE: Final = Console()


def main(chosen: list[str]) -> None:
    for fault in chosen or FAULTS:
        started = time.monotonic()
        for name, found in FAULTS[fault]():
            figures = ", ".join(f"{count:,} {what}" for what, count in sorted(found.items()))
            CONSOLE.print(f"{fault}, {name}: {figures} ({time.monotonic() - started:.0f} s)", soft_wrap=True)


if __name__ == "__main__":
    main([one for one in sys.argv[1:] if one != "--all"])
