"""`walflow wal`: looks into the directory of a log, takes it out, puts it back, and makes it open again."""

import typer


def wal_app() -> typer.Typer:
    from walflow.cli.wal.check import check
    from walflow.cli.wal.dump import dump
    from walflow.cli.wal.export import export
    from walflow.cli.wal.import_ import import_
    from walflow.cli.wal.repair import repair
    from walflow.cli.wal.skip import skip
    from walflow.cli.wal.stats import stats

    program = typer.Typer(help="Look into a log's directory, make it open again, copy it.", no_args_is_help=True)
    program.command()(stats)
    program.command()(check)
    program.command()(dump)
    program.command()(repair)
    program.command()(skip)
    program.command()(export)
    program.command("import")(import_)
    return program
