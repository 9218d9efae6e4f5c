"""`python -m bench.crash`: what is left after a crash, ours and others. One row:
`--only walflow --fault "kill -9, three times" --repeats 1`."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.crash.all_systems import SYSTEMS
from bench.crash.faults import FAULTS
from bench.crash.ledger import Row
from bench.crash.report import ComparedSystem, Results, load, page, store, table
from bench.crash.run import one
from bench.crash.systems import System
from bench.report import between

COMMAND: Final = "python -m bench.crash --repeats {repeats}"


def main(
    only: Annotated[list[str] | None, typer.Option(help="Systems whose name has this in it.")] = None,
    fault: Annotated[list[str] | None, typer.Option(help="Faults whose name has this in it.")] = None,
    repeats: Annotated[int, typer.Option(min=1)] = 3,
    to: Annotated[Path | None, typer.Option("--json", help="Where the rows go.")] = None,
    known: Annotated[list[Path] | None, typer.Option("--from", help="Nothing is run: rows of these files.")] = None,
    into: Annotated[Path | None, typer.Option("--into", help="The page whose tables are written anew.")] = None,
) -> None:
    if known:
        results = load(*known)
    else:
        systems = [one for one in SYSTEMS if not only or any(word in one.name for word in only)]
        for system in systems:
            if (reason := system.absent()) is not None:
                typer.echo(f"{system.name}: left out: {reason}")
        tested = [one for one in systems if one.absent() is None]
        results = Results(_machine(), COMMAND.format(repeats=repeats), [*map(_tested, tested)], [])
        faults = [name for name in FAULTS if not fault or any(word in name for word in fault)]
        for row in _rows(tested, faults, repeats):
            results = results._replace(rows=[*results.rows, row])
            typer.echo(table([row]).splitlines()[-1].replace("| ", f"| {row.fault} | ", 1))
            if to is not None:
                store(to, results)
    if to is not None:
        store(to, results)
    if into is not None:
        into.write_text(between(into.read_text(), f"{page(results)}\n"))
    elif results.rows:
        typer.echo(page(results))


def _rows(systems: Sequence[System], faults: Sequence[str], repeats: int) -> Iterator[Row]:
    for system in systems:
        for name in faults:
            if (reason := system.leaves_out.get(name)) is not None:
                typer.echo(f"{system.name}, {name}: left out: {reason}")
                continue
            for _ in range(repeats):
                try:
                    yield asyncio.run(one(system, name))
                except (PermissionError, ChildProcessError) as error:
                    typer.echo(f"{system.name}, {name}: {error}")
                    break


def _tested(system: System) -> ComparedSystem:
    return ComparedSystem(
        system.name,
        system.version(),
        system.promise,
        system.page,
        system.client(0).acks,
        dict(system.leaves_out),
        dict(system.notes),
    )


def _machine() -> str:
    system = os.uname()
    return f"{system.sysname} {system.release}, {os.cpu_count()} CPUs"


if __name__ == "__main__":
    typer.run(main)
