"""`walflow run`: the daemon."""

import ctypes
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from walflow.cli import logs

EX_CONFIG = 78


def run(
    files: Annotated[list[Path], typer.Argument(help="Flow files; what they deploy runs together.")],
    loop: Annotated[Literal["uvloop", "asyncio"], typer.Option(help="The event loop.")] = "uvloop",
    workdir: Annotated[Path, typer.Option(help="Relative paths in flow files start here.")] = Path(),
    log_format: Annotated[logs.Format, typer.Option(help="auto: console on a terminal, else json.")] = "auto",
    log_level: Annotated[Literal["debug", "info", "warning", "error"], typer.Option()] = "info",
    drain_seconds: Annotated[float, typer.Option(help="How long a stop waits for what is under way.")] = 10.0,
) -> None:
    """Run flows until SIGTERM or SIGINT; a second one ends at once. SIGHUP reopens output files."""
    from walflow.assemble import load
    from walflow.diagnostics import render
    from walflow.runtime.daemon import Settings, run as run_daemon

    files = [file if file.is_absolute() else Path(os.path.relpath(file, workdir)) for file in files]
    try:
        os.chdir(workdir)
    except OSError as error:
        typer.echo(f"walflow: --workdir {workdir}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    logs.configure(log_format, log_level)
    assembly, diagnostics = load(files)
    for diagnostic in diagnostics:
        typer.echo(render(diagnostic), err=True)
    if assembly is None:
        raise typer.Exit(EX_CONFIG)
    _keep_freed_memory()
    raise typer.Exit(run_daemon(assembly, Settings(loop, drain_seconds)))


def _keep_freed_memory() -> None:
    """glibc gives the top of the heap back after each large free and faults it in again for the next read: 2 of
    3 microseconds per event where lists of thousands are made and dropped. M_TRIM_THRESHOLD, M_TOP_PAD and
    M_MMAP_THRESHOLD are set high instead."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018  # raises elsewhere than on glibc
    except (OSError, AttributeError):
        return
    for option, size in ((-1, 1 << 30), (-2, 64 << 20), (-3, 32 << 20)):
        mallopt(option, size)
