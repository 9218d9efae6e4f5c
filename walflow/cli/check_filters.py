"""`walflow check` of scripts and pipelines that are files of their own: what `walflow run` of them would say."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from walflow.cli.filter import load_filter
from walflow.exit_codes import EX_CONFIG, EX_FINDINGS


def check_filters(files: Sequence[Path], args: Sequence[str], *, as_json: bool, python: bool, strict: bool) -> int:
    """Prints what was found. The exit code."""
    from rich.console import Console

    from walflow.cli.findings import document, report, sources
    from walflow.diagnostics import in_order, render

    loaded = [load_filter(file, None, args) for file in files]
    found = in_order([one for _, diagnostics in loaded for one in diagnostics])
    assemblies = [alone.assembly for alone, _ in loaded if alone is not None]
    whole = len(assemblies) == len(files)
    if python:
        for diagnostic in found:
            typer.echo(render(diagnostic), err=True)
        if whole:
            typer.echo("\n".join(text for assembly in assemblies for text in sources(assembly)))
    elif as_json:
        typer.echo(json.dumps(document(found, None), indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(*report(found, None, strict=strict), sep="\n")
    if not whole:
        return EX_CONFIG
    return EX_FINDINGS if strict and found else 0
