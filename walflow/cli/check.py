"""`walflow check`: finds the mistakes of a flow file before it runs."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from walflow.cli.check_filters import check_filters
from walflow.cli.engine import EngineOption, SparkConfigFile, elsewhere, from_directory
from walflow.cli.filter import FilterOptions, is_filter, refuse_mixed
from walflow.cli.flow_args import FlowArgs
from walflow.exit_codes import EX_FINDINGS, EX_UNAVAILABLE
from walflow.roles import DAEMON


def _list_warnings(asked: bool) -> None:
    if not asked:
        return
    from walflow.warnings import registered

    widest = max(map(len, registered()))
    for name, kind in registered().items():
        typer.echo(f"{name.ljust(widest)}  {kind.means}")
    raise typer.Exit()


def _requirements(texts: list[str] | None) -> list[str] | None:
    from walflow.cli.required import Requirement

    for text in texts or ():
        try:
            Requirement.of(text)
        except ValueError as wrong:
            raise typer.BadParameter(str(wrong)) from None
    return texts


def check(
    files: Annotated[list[Path], typer.Argument(help="Flow files, checked together, as `run` would start them.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if there are warnings.")] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            metavar="LEVEL[=FLOW/SINK]",
            callback=_requirements,
            help="Exit with code 1 if a path promises less than this. `at-least-once`: no event is lost on any path, "
            "whatever dies. `once`: and each position of a log comes to each sink behind it once; a log before the "
            "sink is needed. `once-from-source`: and what a source sends again is known to the log. `=FLOW/SINK`: of "
            "the paths to this sink alone. Error records are asked to come at least once. Repeatable.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, for scripts and editors.")
    ] = False,
    workdir: Annotated[
        Path | None,
        typer.Option(
            help=(
                "The directory for relative paths in flow files. Default: the current one; "
                "with --running the daemon's."
            ),
            show_default=False,
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark check the queries too. It takes ten seconds for each.")
    ] = False,
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    engine: EngineOption = DAEMON,
    spark_config: SparkConfigFile = None,
    allow_cycles: Annotated[
        bool,
        typer.Option(
            "--allow-cycles", help="Allow a flow to feed itself through a log, as `run` does with this option."
        ),
    ] = False,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment",
            help="Try what `run` would need: directories, files, ports, peers, certificates, disk for the logs. It "
            "changes nothing. Exit code 69 if something cannot be had, as a port that a running daemon has.",
        ),
    ] = False,
    running: Annotated[
        bool,
        typer.Option(
            "--running",
            help="Show what a restart of the running daemon with these files would change: nodes, links, and what "
            "becomes of each log. Exit code 1 if something would.",
        ),
    ] = False,
    admin: Annotated[
        str,
        typer.Option(
            envvar="WALFLOW_ADMIN", help="For --running: the daemon's own --admin: host:port or unix:/path."
        ),
    ] = "127.0.0.1:9898",
    admin_token_file: Annotated[
        Path | None,
        typer.Option(envvar="WALFLOW_ADMIN_TOKEN_FILE", help="For --running: the daemon's own --admin-token-file."),
    ] = None,
    list_warnings: Annotated[
        bool,
        typer.Option(
            "--list-warnings",
            help="Print what is warned of, by name, and exit.",
            is_eager=True,
            callback=_list_warnings,
        ),
    ] = False,
    python: Annotated[
        bool, typer.Option("--python", help="Print the Python source to which the pipelines are compiled.")
    ] = False,
) -> None:
    """Check flow files, and print what each path from a source to a sink guarantees. A file that ends in .tremor is
    checked as a script, one in .trickle as a pipeline, as `run` takes them."""
    from rich.console import Console

    from walflow.cli.environment import environment_document, environment_lines, tried
    from walflow.cli.findings import document, exit_code, probe, report, sources
    from walflow.cli.promises import promises
    from walflow.cli.required import Requirement, judge, required_document
    from walflow.cli.restart_changes import ask, changes, running_document, running_lines
    from walflow.diagnostics import in_order, render
    from walflow.plan import load

    if python and (as_json or environment or running):
        raise typer.BadParameter("--python excludes --json, --environment and --running")
    token = admin_token_file and admin_token_file.absolute()  # before the change of the directory
    now = ask(admin, token) if running else None
    if workdir is None:
        # the daemon's own, if it is one of this machine
        workdir = Path(now.nodes.workdir) if now is not None and os.path.isdir(now.nodes.workdir) else Path()
    found_at = [os.path.relpath(file, workdir) if not file.is_absolute() else file for file in files]
    settings = from_directory(spark_config, workdir)
    try:
        os.chdir(workdir)
    except OSError as error:
        typer.echo(f"walflow: --workdir {workdir}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    if is_filter(files, FilterOptions()):
        if spark or environment or running or require or engine != DAEMON:
            raise typer.BadParameter(
                "--spark, --environment, --running, --require and --engine are for flows, not for a script"
            )
        raise typer.Exit(
            check_filters([Path(one) for one in found_at], args, as_json=as_json, python=python, strict=strict)
        )
    refuse_mixed(files, "check")
    assembly, diagnostics = load(
        found_at,
        args=args,
        allow_cycles=allow_cycles,
        engine=elsewhere(engine),
        spark_config=settings,
        reads_secrets=running,
    )
    if spark and assembly is not None:
        objections = probe(assembly)
        diagnostics = in_order([*diagnostics, *objections])
        assembly = None if objections else assembly
    promised = promises(assembly) if assembly else None
    judged = (
        [judge(Requirement.of(one), promised, assembly) for one in require or ()] if promised and assembly else []
    )
    diagnostics = [*diagnostics, *(finding for one in judged for finding in one.findings)]
    found = tried(assembly) if environment and assembly else []
    differences = changes(now, assembly) if now is not None and assembly else []
    if python:
        for diagnostic in diagnostics:
            typer.echo(render(diagnostic), err=True)
        typer.echo("\n".join(sources(assembly)) if assembly else "", nl=assembly is not None)
    elif as_json:
        more: dict[str, object] = {"environment": environment_document(found)} if environment else {}
        more |= {"required": required_document(judged)} if require else {}
        more |= {"running": running_document(differences)} if running else {}
        typer.echo(json.dumps(document(diagnostics, promised) | more, indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(*report(diagnostics, promised, strict=strict), sep="\n")
        if environment and assembly is not None:
            Console(highlight=False, soft_wrap=True).print(*environment_lines(found), sep="\n")
        if running and assembly is not None:
            Console(highlight=False, soft_wrap=True).print(*running_lines(differences), sep="\n")
    if any(one.wrong for one in found):
        raise typer.Exit(EX_UNAVAILABLE)
    if assembly is not None and (any(not one.stays for one in differences) or any(not one.holds for one in judged)):
        raise typer.Exit(EX_FINDINGS)
    raise typer.Exit(exit_code(assembly, diagnostics, promised, strict=strict))
