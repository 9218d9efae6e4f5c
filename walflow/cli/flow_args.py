"""The option `--set`, of each command that reads flows."""

from typing import Annotated

import typer

FlowArgs = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An arg of the flows, or of the script that `run` is given, as JSON or as text without quotes; "
        "FLOW.NAME=VALUE for one flow. Repeatable.",
    ),
]
