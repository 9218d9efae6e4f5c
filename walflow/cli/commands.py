"""A program of commands that names them where one is asked for that it does not have."""

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

from walflow.exit_codes import EX_USAGE

_OPTIONS: Final[Mapping[str, str]] = {"help": "--help", "version": "--version"}


FOR_EXAMPLE: Final[Mapping[str, str]] = {
    "directory": "hello",
    "files": "main.troy",
    "folders": "tests",
    "kind": "tcp_server",
    "name": "nightly",
    "new": "archive",
    "old": "out",
    "path": "state",
    "position": "42",
    "sink": "main::db",
}
"""A word for each argument that a command must have, by the name of its parameter."""


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:  # Any: as below
        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            missing: Any = wrong
            if type(wrong).__name__ == "MissingParameter" and not wrong.message and missing.ctx is not None:
                wrong.message = example(missing.ctx)
            wrong.message = wrong.message.removeprefix("Value error, ")
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Any: typer's classes of these are private
        word = args[0] if args else ""
        typed = 0.7 if "show" in self.commands else 0.6  # `sqlite` is a type, and no slip for `list`
        if (
            word and not word.startswith("-") and not get_close_matches(word, self.commands, cutoff=typed)
        ):  # typer has words for these
            if word in _OPTIONS and ctx.parent is None:
                known = f"write `{ctx.command_path} {_OPTIONS[word]}`"
            elif "show" in self.commands:
                known = f"write `{ctx.command_path} show {word}`, or `{ctx.command_path} list`"
            else:
                known = f"there is {', '.join(self.commands)}"
            typer.echo(f"walflow: no command `{word}`: {known}", err=True)
            raise typer.Exit(EX_USAGE)
        return super().resolve_command(ctx, args)


def example(ctx: Any) -> str:
    """A call of the command with each argument that it must have."""
    needed = [param.name for param in ctx.command.params if param.param_type_name == "argument" and param.required]
    return f"For example: {' '.join([ctx.command_path, *(FOR_EXAMPLE[name] for name in needed)])}"


def flowing(text: str) -> str:
    """Paragraphs without line breaks, which help would keep."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))
