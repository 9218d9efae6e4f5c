"""The recorded run."""

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.exactly_once.run import Kill, run
from tests.jvm import be_short_lived


def main(kills: Annotated[int, typer.Option(min=1, help="At each point.")] = 10) -> None:
    """Kills Spark, or the daemon, at each named point, and counts what Spark's table holds in the end."""
    be_short_lived()
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()

    def tell(kill: Kill) -> None:
        console.print(f"{time.monotonic() - started:6.0f} s  {kill.point}: {kill.proof}")

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        done, events, found = run(Path(directory), kills, tell)
    for point, count in Counter(kill.point for kill in done).items():
        console.print(f"{count:4} kills: {point}")
    console.print(
        f"{events} events sent; Spark reads {found.rows} rows, {found.distinct} distinct, "
        f"{found.first} to {found.last}"
    )
    complete = (found.rows, found.distinct, found.positions, found.first, found.last) == (
        events,
        events,
        events,
        0,
        events - 1,
    )
    console.print("complete, without duplicates" if complete else "NOT COMPLETE, OR TWICE")
    raise typer.Exit(0 if complete else 1)


if __name__ == "__main__":
    typer.run(main)
