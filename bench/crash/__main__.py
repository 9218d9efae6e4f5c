"""`python -m bench.crash`: the table. One row: `--only walflow --fault "kill -9, three times" --repeats 1`."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from bench.crash.all_systems import SYSTEMS
from bench.crash.faults import FAULTS
from bench.crash.ledger import Row
from bench.crash.report import markdown
from bench.crash.run import one


def main(
    only: Annotated[list[str] | None, typer.Option(help="Systems whose name has this in it.")] = None,
    fault: Annotated[list[str] | None, typer.Option(help="Faults whose name has this in it.")] = None,
    repeats: Annotated[int, typer.Option(min=1)] = 3,
    into: Annotated[Path | None, typer.Option("--json", help="Where the rows go.")] = None,
) -> None:
    rows: list[Row] = []
    for system in SYSTEMS:
        if only and not any(word in system.name for word in only):
            continue
        if (reason := system.absent()) is not None:
            typer.echo(f"{system.name}: left out: {reason}")
            continue
        for name in FAULTS:
            if fault and not any(word in name for word in fault):
                continue
            if (reason := system.leaves_out.get(name)) is not None:
                typer.echo(f"{system.name}, {name}: left out: {reason}")
                continue
            for _ in range(repeats):
                try:
                    row = asyncio.run(one(system, name))
                except (PermissionError, ChildProcessError) as error:
                    typer.echo(f"{system.name}, {name}: {error}")
                    break
                rows.append(row)
                typer.echo(json.dumps(row._asdict()))
                if into is not None:
                    versions = {one.name: one.version() for one in SYSTEMS if one.absent() is None}
                    into.write_text(
                        json.dumps({"versions": versions, "rows": [one._asdict() for one in rows]}, indent=1)
                    )
    if rows:
        typer.echo(markdown(rows))


if __name__ == "__main__":
    typer.run(main)
