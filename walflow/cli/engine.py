"""`--engine` and `--spark-config`: where pipelines run, and how."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from walflow.roles import DAEMON, engines


def known_engine(engine: str) -> str:
    if engine != DAEMON and engine not in engines():
        raise typer.BadParameter(f"{engine!r} is not one of {', '.join(map(repr, engines()))}.")
    return engine


def elsewhere(engine: str) -> str | None:
    return None if engine == DAEMON else engine


def engine_option(help_: str) -> Any:
    return typer.Option("--engine", metavar="ENGINE", callback=known_engine, autocompletion=engines, help=help_)


EngineOption = Annotated[
    str,
    engine_option(
        "Where pipelines run that do not say it themselves. `spark`: on Spark, each that can; `#!config "
        'engine = "daemon"` keeps one in walflow.'
    ),
]
SparkConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--spark-config",
        metavar="FILE",
        help="A YAML or JSON file with settings for pipelines on Spark, with the keys of `#!config spark`. What a "
        "pipeline sets itself counts before it.",
    ),
]


def from_directory(file: Path | None, directory: Path) -> Path | None:
    """A file of the command line, as it is found after the change into `directory`."""
    return file if file is None or file.is_absolute() else Path(os.path.relpath(file, directory))
