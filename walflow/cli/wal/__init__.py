"""`walflow wal`: looks into the directory of a log, takes it out, puts it back, and makes it open again."""

import inspect
from collections.abc import Callable

import typer

HELP = """Look into a log's directory, make it open again, copy it.

Is it sound? `check` names everything that is wrong. A daemon refuses it: `repair`, first with --dry-run. A sink fails
on the same event again and again: find it with `dump`, then `skip` it. To take a log elsewhere: `export` and `import`.
"""


def wal_app() -> typer.Typer:
    from walflow.cli.wal.check import check
    from walflow.cli.wal.dump import dump
    from walflow.cli.wal.export import export
    from walflow.cli.wal.import_ import import_
    from walflow.cli.wal.repair import repair
    from walflow.cli.wal.skip import skip
    from walflow.cli.wal.stats import stats

    program = typer.Typer(help=_flowing(HELP), no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (stats, check, dump, repair, skip, export, import_)
    for command in commands:
        program.command(command.__name__.strip("_"), help=_flowing(command.__doc__ or ""))(command)
    return program


def _flowing(text: str) -> str:
    """Paragraphs without line breaks, which help would keep."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))
