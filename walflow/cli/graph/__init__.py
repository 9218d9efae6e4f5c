"""`walflow graph`: draws the connectors and pipelines of flow files and the links between them."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from walflow.cli.flow_args import FlowArgs
from walflow.exit_codes import EX_CONFIG


class PictureFormat(StrEnum):
    mermaid = "mermaid"
    dot = "dot"
    svg = "svg"


def graph(
    files: Annotated[list[Path], typer.Argument(help="Flow files, drawn together, as `run` would start them.")],
    form: Annotated[
        PictureFormat, typer.Option("--format", help="mermaid (for Markdown pages), dot (for Graphviz) or svg.")
    ] = PictureFormat.mermaid,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write to. Default: stdout.")
    ] = None,
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    workdir: Annotated[Path, typer.Option(help="The directory for relative paths in flow files.")] = Path(),
) -> None:
    """Draw flow files: connectors, pipelines, links, where ack domains begin and end, and which sink stops which
    source."""
    from walflow.cli.graph.dot import dot
    from walflow.cli.graph.mermaid import mermaid
    from walflow.cli.graph.picture import picture
    from walflow.cli.graph.svg import svg
    from walflow.diagnostics import render_all
    from walflow.plan import load

    draw = {PictureFormat.mermaid: mermaid, PictureFormat.dot: dot, PictureFormat.svg: svg}[form]
    target = output.absolute() if output else None
    found_at = [os.path.relpath(file, workdir) if not file.is_absolute() else file for file in files]
    try:
        os.chdir(workdir)
    except OSError as error:
        typer.echo(f"walflow: --workdir {workdir}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    assembly, diagnostics = load(found_at, args=args, allow_cycles=True)  # a picture shows them
    if assembly is None:
        typer.echo(render_all(diagnostics), err=True)
        raise typer.Exit(EX_CONFIG)
    drawn = draw(picture(assembly))
    if target is None:
        typer.echo(drawn, nl=False)
        return
    try:
        target.write_text(drawn, encoding="utf-8")
    except OSError as error:
        typer.echo(f"walflow: --output {output}: {error.strerror}", err=True)
        raise typer.Exit(73) from None
