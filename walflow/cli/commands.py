"""A program of commands that names them where one is asked for that it does not have."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

from walflow.exit_codes import EX_USAGE

_OPTIONS: Final[Mapping[str, str]] = {"help": "--help", "version": "--version"}


class Commands(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Any: typer's classes of these are private
        word = args[0] if args else ""
        if (
            word and not word.startswith("-") and not get_close_matches(word, self.commands)
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
