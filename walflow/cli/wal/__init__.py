"""`walflow wal`: commands that inspect, repair, export and import the directory of a log."""

from collections.abc import Callable

import typer

from walflow.cli.commands import Commands, flowing

HELP = "Inspect, repair and copy a log's directory."


def wal_app() -> typer.Typer:
    from walflow.cli.wal.check import check
    from walflow.cli.wal.consumers import consumers, forget
    from walflow.cli.wal.dump import dump
    from walflow.cli.wal.export import export
    from walflow.cli.wal.import_ import import_
    from walflow.cli.wal.rename import rename
    from walflow.cli.wal.repair import repair
    from walflow.cli.wal.retain import retain
    from walflow.cli.wal.skip import skip
    from walflow.cli.wal.stats import stats

    program = typer.Typer(cls=Commands, help=flowing(HELP), no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (
        stats,
        check,
        dump,
        repair,
        skip,
        rename,
        retain,
        consumers,
        forget,
        export,
        import_,
    )
    for command in commands:
        program.command(command.__name__.strip("_"), help=flowing(command.__doc__ or ""))(command)
    return program
