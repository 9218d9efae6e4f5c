"""`walflow check`: finds the mistakes of a flow file before it runs."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from walflow.cli.engine import Engine
from walflow.cli.flow_args import FlowArgs


def check(
    files: Annotated[list[Path], typer.Argument(help="Flow files, checked together, as `run` would start them.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if there are warnings.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, for scripts and editors.")
    ] = False,
    workdir: Annotated[Path, typer.Option(help="The directory for relative paths in flow files.")] = Path(),
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark check the queries too. It takes ten seconds for each.")
    ] = False,
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            help='Where pipelines run that do not say it themselves. `spark`: on Spark, each that can; `#!config engine = "daemon"` '
            "keeps one in walflow.",
        ),
    ] = Engine.DAEMON,
    allow_cycles: Annotated[
        bool,
        typer.Option(
            "--allow-cycles", help="Allow a flow to feed itself through a log, as `run` does with this option."
        ),
    ] = False,
    python: Annotated[
        bool, typer.Option("--python", help="Print the Python source to which the pipelines are compiled.")
    ] = False,
) -> None:
    """Check flow files, and print what each path from a source to a sink guarantees."""
    from rich.console import Console

    from walflow.cli.findings import document, exit_code, probe, report, sources
    from walflow.cli.promises import promises
    from walflow.diagnostics import in_order, render
    from walflow.plan import load

    if python and as_json:
        raise typer.BadParameter("--python and --json exclude each other")
    found_at = [os.path.relpath(file, workdir) if not file.is_absolute() else file for file in files]
    try:
        os.chdir(workdir)
    except OSError as error:
        typer.echo(f"walflow: --workdir {workdir}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    assembly, diagnostics = load(found_at, args=args, allow_cycles=allow_cycles, engine=engine.elsewhere)
    if spark and assembly is not None:
        objections = probe(assembly)
        diagnostics = in_order([*diagnostics, *objections])
        assembly = None if objections else assembly
    promised = promises(assembly) if assembly else None
    if python:
        for diagnostic in diagnostics:
            typer.echo(render(diagnostic), err=True)
        typer.echo("\n".join(sources(assembly)) if assembly else "", nl=assembly is not None)
    elif as_json:
        typer.echo(json.dumps(document(diagnostics, promised), indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(*report(diagnostics, promised, strict=strict), sep="\n")
    raise typer.Exit(exit_code(assembly, diagnostics, promised, strict=strict))
