"""Man pages, made from the help of the commands: `python -m release.manual DIRECTORY`, one file a command."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup

from walflow import __version__
from walflow.cli import app

FILES = """\
.SH FILES
.TP
.I /etc/walflow/main.troy
The flow of the service.
.TP
.I /var/lib/walflow
The directory of the service: its logs, and what relative paths in the flow name.
.SH EXIT STATUS
0: done. 1: found something. 2: wrong usage. 65, 66, 69, 70, 73, 74, 75, 78: as in
.IR sysexits.h .
"""


# Any: typer brings a click of its own, whose types are not public
def pages() -> Iterator[tuple[str, str]]:
    """The name of each page, and its text."""
    program = typer.main.get_command(app())
    yield from _pages(program, "walflow")


def _pages(command: Any, path: str) -> Iterator[tuple[str, str]]:
    yield path.replace(" ", "-"), "".join(_page(command, path))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _pages(inner, f"{path} {name}")


def _page(command: Any, path: str) -> Iterator[str]:
    paragraphs = (command.help or "").split("\n\n")
    summary = " ".join(paragraphs[0].split()).partition(". ")[0].rstrip(".")
    yield f'.TH {path.replace(" ", "-").upper()} 1 "" "walflow {__version__}" "walflow"\n'
    yield f".SH NAME\n{path.replace(' ', '-')} \\- {_escaped(summary)}\n"
    arguments = [part for part in command.params if isinstance(part, TyperArgument)]
    words = [
        path,
        *(["COMMAND"] if isinstance(command, TyperGroup) else []),
        *(["[OPTIONS]"] if command.params else []),
    ]
    yield f".SH SYNOPSIS\n.B {_escaped(' '.join([*words, *map(_metavar, arguments)]))}\n.SH DESCRIPTION\n"
    for paragraph in paragraphs:
        yield f".PP\n{_escaped(paragraph)}\n"
    if isinstance(command, TyperGroup):
        yield ".SH COMMANDS\n"
        for name, inner in command.commands.items():
            text = " ".join((inner.help or "").split("\n\n")[0].split())
            yield f".TP\n.BR {path.replace(' ', '-')}-{name} (1)\n{_escaped(text)}\n"
    if command.params:
        yield ".SH OPTIONS\n"
    for part in command.params:
        name = _metavar(part) if isinstance(part, TyperArgument) else ", ".join(part.opts)
        yield f".TP\n.B {_escaped(name)}\n{_escaped(part.help or '')}\n"
        if part.envvar:
            yield f"In the environment: {_escaped(part.envvar)}.\n"
    yield FILES if path == "walflow" else ".SH SEE ALSO\n.BR walflow (1)\n"


def _metavar(part: TyperArgument) -> str:
    return f"{(part.name or '').upper()}{'...' if part.nargs == -1 else ''}"


def _escaped(text: str) -> str:
    """On one line, that begins with no request of roff's."""
    flat = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{flat}" if flat.startswith(".") else flat


def main(into: Path) -> None:
    for name, text in pages():
        (into / f"{name}.1").write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
