"""`walflow connectors`: lists the connector types and shows their keys. The classes are the only source."""

import inspect
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from walflow.cli.commands import Commands
from walflow.cli.examples import guarantees
from walflow.contract import Connector, Ports
from walflow.diagnostics import did_you_mean
from walflow.exit_codes import EX_CONFIG
from walflow.plugins import NotLoadable
from walflow.registry import connectors as registered
from walflow.substitutes import substitute

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts and editors.")]

Schema = Mapping[str, Any]  # JSON Schema has no narrower type


class ConfigKey(NamedTuple):
    name: str  # with the keys it lies in: tls.cert
    type: str
    default: str  # "required" where there is none
    description: str


def connectors_app() -> typer.Typer:
    program = typer.Typer(cls=Commands, help="List connector types, and show the keys of one.", no_args_is_help=True)
    program.command("list")(list_)
    program.command("show")(show)
    return program


def list_(as_json: AsJson = False) -> None:
    """List the connector types, which `define connector NAME from TYPE` may name."""
    with _said():
        loaded = _loaded(registered())
    if as_json:
        typer.echo(json.dumps({kind: _words(connector) for kind, connector in loaded.items()}, indent=2))
        return
    table = Table("type", "in", "out", "what it is", box=None, pad_edge=False, header_style="bold")
    for kind, connector in loaded.items():
        ports = Ports((), ()) if isinstance(connector, NotLoadable) else connector.ports
        table.add_row(kind, " ".join(ports.inputs), " ".join(ports.outputs), _words(connector))
    _print(table)


def _words(connector: type[Connector] | NotLoadable) -> str:
    return str(connector) if isinstance(connector, NotLoadable) else summary(connector)


def _kinds(incomplete: str) -> list[str]:
    """For the shell's completion. Only names: no class is loaded."""
    return sorted(kind for kind in registered() if kind.startswith(incomplete))


def show(
    kind: Annotated[
        str, typer.Argument(help="A type, as `walflow connectors list` shows it.", autocompletion=_kinds)
    ],
    as_json: AsJson = False,
) -> None:
    """Show the keys of a type's `config`, with types and defaults. It never shows a flow's own values, so it shows no
    secret."""
    with _said():
        classes = registered()
        if kind not in classes:
            hint = (
                substitute("connector", kind)
                or did_you_mean(kind, classes)
                or "`walflow connectors list` names them all"
            )
            raise NotLoadable(f"unknown connector type `{kind}`: {hint}")
        connector = classes[kind]
    if as_json:
        typer.echo(json.dumps(_document(kind, connector), indent=2))
        return
    typer.echo(f"{kind}: {summary(connector)}")
    typer.echo(f"ports in: {' '.join(connector.ports.inputs) or 'none'}")
    typer.echo(f"ports out: {' '.join(connector.ports.outputs) or 'none'}")
    typer.echo(f"codec: {connector.traits.codec.value}")
    for line in _promised(connector):
        typer.echo(line)
    print_keys(connector)


def print_keys(connector: type[BaseModel]) -> None:
    """As a table. Operators have keys as connectors have them."""
    listed = keys(connector)
    if not listed:
        typer.echo("takes no config")
        return
    table = Table("key", "type", "default", "", box=None, pad_edge=False, header_style="bold")
    for key in listed:
        table.add_row(*key)
    _print(table)


def _promised(connector: type[Connector]) -> Iterator[str]:
    """Guarantees of the type with its default keys. `check` prints what your flow guarantees."""
    for chosen, guarantee in guarantees(connector):
        where = f" ({chosen})" if chosen else ""
        for half, words in (("source", guarantee.source), ("sink", guarantee.sink)):
            if words:
                yield f"{half}{where}: {words}"


def _print(table: Table) -> None:
    Console(highlight=False, soft_wrap=False).print(table)


@contextmanager
def _said() -> Generator[None]:
    """Reports a broken distribution with one line; the other types still work."""
    try:
        yield
    except NotLoadable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EX_CONFIG) from None


def _loaded(classes: Mapping[str, type[Connector]]) -> dict[str, type[Connector] | NotLoadable]:
    loaded: dict[str, type[Connector] | NotLoadable] = {}
    for kind in sorted(classes):
        try:
            loaded[kind] = classes[kind]
        except NotLoadable as error:
            loaded[kind] = error
    return loaded


def summary(connector: type[BaseModel]) -> str:
    """The first paragraph of the class's docstring, else of its module's."""
    text = _own_docstring(connector)
    module = inspect.getmodule(connector)
    return _paragraphs(text or (module.__doc__ if module else None) or "")[0]


def details(connector: type[BaseModel]) -> list[str]:
    """The other paragraphs of the class's docstring: what a user needs to know besides the keys."""
    return _paragraphs(_own_docstring(connector))[1:]


def _own_docstring(connector: type[BaseModel]) -> str:
    return (connector.__doc__ or "") if "__doc__" in vars(connector) else ""


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _document(kind: str, connector: type[Connector]) -> dict[str, object]:
    return {
        "type": kind,
        "summary": summary(connector),
        "ports": {"in": connector.ports.inputs, "out": connector.ports.outputs},
        "codec": connector.traits.codec.value,
        "guarantee": [
            {"where": chosen, "source": promised.source, "sink": promised.sink}
            for chosen, promised in guarantees(connector)
        ],
        "config": connector.model_json_schema(),
    }


def keys(connector: type[BaseModel]) -> list[ConfigKey]:
    schema = connector.model_json_schema()
    return list(_keys_of(schema, schema.get("$defs", {}), ""))


def _keys_of(schema: Schema, definitions: Schema, within: str) -> Iterator[ConfigKey]:
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        default = "required" if name in required else _literal(part.get("default"))
        yield ConfigKey(within + name, _type(part, definitions), default, part.get("description", ""))
        for nested in _alternatives(part, definitions):
            yield from _keys_of(nested, definitions, f"{within}{name}.")
            if "items" in nested:
                yield from _keys_of(_resolved(nested["items"], definitions), definitions, f"{within}{name}[].")


def _alternatives(part: Schema, definitions: Schema) -> list[Schema]:
    if "anyOf" not in part:
        return [_resolved(part, definitions)]
    return [each for one in part["anyOf"] for each in _alternatives(one, definitions)]


def _resolved(part: Schema, definitions: Schema) -> Schema:
    reference = part.get("$ref")
    if reference is None:
        return part
    resolved: Schema = definitions[reference.rsplit("/", 1)[1]]
    return resolved


def _type(part: Schema, definitions: Schema) -> str:
    kinds = [_kind(one) for one in _alternatives(part, definitions)]
    return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or "anything"


def _kind(part: Schema) -> str:
    if "enum" in part:
        return " or ".join(_literal(value) for value in part["enum"])
    if "const" in part:
        return _literal(part["const"])
    words = {"object": "record", "array": "array", "integer": "integer", "number": "number", "boolean": "bool"}
    kind = part.get("type", "anything")
    return str(words.get(kind, kind))


def _literal(value: object) -> str:
    return json.dumps(value, default=str)
