"""`walflow fmt`: one layout for flow files."""

import difflib
import os
import stat
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from walflow.admin.text import printable
from walflow.exit_codes import EX_CONFIG, EX_FINDINGS, EX_IOERR

STDIN: Final = "-"
SUFFIXES: Final = (".troy", ".trickle", ".tremor")


def fmt(
    files: Annotated[list[str], typer.Argument(help="Files or directories (.troy, .trickle, .tremor); - is stdin.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if a file has another layout.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; print what would change.")] = False,
) -> None:
    """Lay out flow files: indentation, spaces and blank lines. Line breaks, comments and strings are kept. A file
    with a syntax error is not changed."""
    from walflow.diagnostics import Diagnostic, Source, render_all
    from walflow.lang.files import read
    from walflow.lang.layout import formatted
    from walflow.lang.syntax_of import syntax_errors

    code = 0
    for name in _all(files):
        found = Source("stdin.troy", sys.stdin.read()) if name == STDIN else read(Path(name), 0)
        said = [found] if isinstance(found, Diagnostic) else syntax_errors(found)
        if isinstance(found, Diagnostic) or said:
            typer.echo(render_all(said), err=True)
            code = EX_CONFIG
            continue
        text = formatted(found)
        if text == found.text:
            if name == STDIN and not check and not diff:
                typer.echo(text, nl=False)
            continue
        if diff:
            lines = difflib.unified_diff(found.text.splitlines(), text.splitlines(), name, name, lineterm="")
            typer.echo("\n".join(printable(line) for line in lines))
        if check:
            typer.echo(f"{printable(name)}: `walflow fmt` changes its layout", err=True)
        elif not diff:
            _write(name, text)
        if check:
            code = code or EX_FINDINGS
    raise typer.Exit(code)


def _all(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        if name != STDIN and os.path.isdir(name):
            found += sorted(str(path) for path in Path(name).rglob("*") if path.suffix in SUFFIXES and path.is_file())
        else:
            found.append(name)
    return found


def _write(name: str, text: str) -> None:
    if name == STDIN:
        typer.echo(text, nl=False)
        return
    # beside it, and then in its place: a full disk leaves the file as it was
    target = Path(os.path.realpath(name))
    fresh = target.with_name(f".{target.name}.fmt")
    try:
        fresh.write_text(text, encoding="utf-8", newline="")
        fresh.chmod(stat.S_IMODE(target.stat().st_mode))
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        typer.echo(f"walflow: cannot write {printable(name)}: {error.strerror}", err=True)
        raise typer.Exit(EX_IOERR) from None
