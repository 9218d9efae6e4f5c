"""`walflow doc`: what modules say of themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walflow.admin.text import printable
from walflow.diagnostics import did_you_mean
from walflow.exit_codes import EX_CANTCREAT, EX_NOINPUT

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def doc(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE[::NAME]|TYPE]",
            help="A module, or a function, constant or definition in it; or a connector's or an operator's type. "
            "Default: a list of the modules.",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where your own modules are.")] = Path(),
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a page of Markdown for the module, or for each of your own modules, into this folder.",
        ),
    ] = None,
) -> None:
    """Print the documentation of modules, shipped ones and your own, and of the types of connectors and operators.

    Lines that begin with `###` are about the module, lines with `##` about the definition below them.
    `walflow doc std::string` prints a module, `walflow doc std::string::len` one function, `walflow doc wal` a
    connector's keys. `walflow doc err` says where an event can end.
    """
    from walflow.lang.documented import NotDocumented, listed, text_of
    from walflow.lang.files import search_path

    if name == "err" and markdown is None:
        from walflow.cli import doc_err

        typer.echo(doc_err.text())
        return
    folders = search_path(folder)
    try:
        if markdown is not None:
            _write_pages(name, folder, folders, markdown)
        else:
            lines = text_of(name, folders) if name is not None else listed(folder, folders)
            typer.echo("\n".join(printable(line) for line in lines))
    except NotDocumented as refused:
        if markdown is not None or name is None:
            raise _end(str(refused), EX_NOINPUT) from None
        if not _type(name):
            raise _end(_with_types(name, str(refused)), EX_NOINPUT) from None


def _type(name: str) -> bool:
    """Prints what is known of a type, if there is one of that name. A module of the same name comes first."""
    from walflow.cli.connectors import print_keys, show, summary
    from walflow.operators import registered
    from walflow.registry import connectors

    if name in registered():
        operator = registered()[name]
        typer.echo(f"{name}: {summary(operator)}")
        print_keys(operator)
    elif name in connectors():
        show(name)
    else:
        return False
    return True


def _with_types(name: str, refused: str) -> str:
    """Types that are meant perhaps, where no module is."""
    from walflow.operators import registered
    from walflow.registry import connectors

    near = None if "did you mean" in refused else did_you_mean(name, [*registered(), *connectors()])
    return f"{refused}; {near}" if near else refused


def _write_pages(name: str | None, folder: Path, folders: "Sequence[Path | Traversable]", to: Path) -> None:
    from walflow.lang.documented import NotDocumented, markdown_of, own_modules, read_module

    paths = [name] if name is not None else own_modules(folder)
    if not paths:
        raise NotDocumented(f"{folder}: there is no module, a file that ends in .tremor, .trickle or .troy")
    for path in paths:
        module = read_module(path, folders)
        if module is None:
            raise NotDocumented(f"there is no module `{path}`")
        page = to.joinpath(*path.split("::")[:-1], f"{path.split('::')[-1]}.md")
        try:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(markdown_of(module), encoding="utf-8")
        except OSError as error:
            raise _end(f"--markdown {page}: {error.strerror}", EX_CANTCREAT) from None
        typer.echo(f"written: {printable(str(page))}")


def _end(line: str, code: int) -> typer.Exit:
    typer.echo(f"walflow: {printable(line)}", err=True)
    return typer.Exit(code)
