"""docs/reference/connectors: a page a connector type, from its class. What a person adds stands behind `BY_HAND`, and
stays."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from walflow.cli.connectors import ConfigKey, details, keys, summary
from walflow.cli.examples import guarantees
from walflow.contract import CodecUse, Connector
from walflow.metrics import CATALOGUE, exposed
from walflow.registry import connectors

OURS: Final = "walflow"  # the distribution: the pages say nothing of others that happen to be installed
BY_HAND: Final = "<!-- by hand: `make pages` keeps what follows -->"
CODECS: Final = {
    CodecUse.REQUIRED: "`codec` is required",
    CodecUse.OPTIONAL: "the default `codec` is json",
    CodecUse.FORBIDDEN: "takes no `codec`",
}
SHARED: Final = {  # records of keys that several types have, by their class: the heading in keys.md
    "Secret": "A secret",
    "ClientTls": "TLS of a client",
    "ServerTls": "TLS of a server",
    "Reconnect": "Reconnect",
    "SocketOptions": "Socket options",
}

OVERVIEW: Final = """\
# Connectors

The connector types that `define connector NAME from TYPE` may name. Each has a page with its guarantee, its ports,
the keys of its `config` and its metrics. `walflow connectors show TYPE` prints the same text, also for connectors
that you installed from other packages. These pages are generated from the code.

In Vector's words, a connector with an `out` port is a source, and one with an `in` port is a sink. Many are both.

| type | in | out | |
|---|---|---|---|
"""
KEYS: Final = """\
# Keys that several connectors have

The pages of the [connectors](README.md) link here. Durations are in nanoseconds, sizes in bytes, unless a key says
otherwise. This page is generated
from the code.
"""
HEAD: Final = "| key | type | default | |\n|---|---|---|---|\n"


ALIASES: Final = {"console": "stdio"}


def classes() -> Mapping[str, type[Connector]]:
    return {kind: one for kind, one in connectors().of(OURS).items() if kind not in ALIASES}


def overview(page: str) -> str:
    """The sentence is the first of the class's docstring."""
    rows = (
        f"| [`{kind}`]({kind}.md) | {' '.join(one.ports.inputs)} | {' '.join(one.ports.outputs)} | "
        f"{re.split(r'(?<=[.]) ', _placeholders_shown(summary(one)))[0]} |\n"
        for kind, one in sorted(classes().items())
    )
    return (
        OVERVIEW
        + "".join(rows)
        + "".join(f"\n`{name}` is another name of `{kind}`, tremor's.\n" for name, kind in ALIASES.items())
    )


def connector_page(kind: str, page: str) -> str:
    _, marked, written = page.partition(BY_HAND)
    return "".join(_connector(kind, classes()[kind])) + (f"\n{BY_HAND}{written}" if marked else "")


def _connector(kind: str, connector: type[Connector]) -> Iterator[str]:
    yield f"# {kind}\n\n{summary(connector)}\n\n"
    ports = connector.ports
    yield f"In: {_ports(ports.inputs)}. Out: {_ports(ports.outputs)}; {CODECS[connector.codec]}.\n"
    promised = [*guarantees(connector)]
    if promised:
        yield (
            "\n## Guarantee\n\nWith default keys, that of a sink with a log upstream. "
            "`walflow check` prints those of your flow.\n"
        )
    for chosen, guarantee in promised:
        where = f" (`{chosen}`)" if chosen else ""
        for half, words in (("As a source", guarantee.source), ("As a sink", guarantee.sink)):
            if words:
                yield f"\n{half}{where}: {_placeholders_shown(words)}.\n"
    listed = list(_own_keys(connector))
    yield "\n## Keys\n\n" + (
        f"Durations are in nanoseconds, sizes in bytes.\n\n{HEAD}{''.join(map(row, listed))}" if listed else "None.\n"
    )
    if paragraphs := details(connector):
        yield "\n## How it works\n"
        yield from (f"\n{paragraph}\n" for paragraph in paragraphs)
    if counted := [name for name in CATALOGUE if name in _counted_by(connector)]:
        yield "\n## Metrics\n\nBeside [those of every connector](../metrics.md#components):\n\n"
        yield "| name | |\n|---|---|\n"
        yield from (f"| `{exposed(name)}` | {CATALOGUE[name].help} |\n" for name in counted)


def _placeholders_shown(words: str) -> str:
    """`<path>` would be a tag."""
    return re.sub(r"<\w+>", lambda name: f"`{name[0]}`", words)


def _ports(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def row(key: ConfigKey) -> str:
    default = key.default if key.default == "required" else f"`{key.default}`"
    cells = f"`{key.name}`", key.type, default, key.description
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _own_keys(connector: type[Connector]) -> Iterator[ConfigKey]:
    """A record that several types have is a link to its keys."""
    schema: Mapping[str, Any] = connector.model_json_schema()
    shared = dict(_shared_records(schema, schema.get("$defs", {}), ""))
    for key in keys(connector):
        if any(key.name.startswith(f"{name}.") for name in shared):
            continue
        if title := SHARED.get(shared.get(key.name, "")):
            told = key.description.replace(" with the keys below", "")
            anchor = title.lower().replace(" ", "-")
            default = "…" if key.default.startswith("{") else key.default  # the record has them
            yield ConfigKey(key.name, key.type, default, f"{told} [Its keys](keys.md#{anchor}).")
        else:
            yield key


def _shared_records(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], within: str
) -> Iterator[tuple[str, str]]:
    for name, part in schema.get("properties", {}).items():
        for one in part.get("anyOf", [part]):
            if "$ref" not in one:
                continue
            definition = one["$ref"].rsplit("/", 1)[1]
            if definition in SHARED:
                yield within + name, definition
            else:
                yield from _shared_records(definitions[definition], definitions, f"{within}{name}.")


def keys_page(page: str) -> str:
    used: Counter[str] = Counter()
    records: dict[str, tuple[type[Connector], str]] = {}
    for _, connector in sorted(classes().items()):
        schema: Mapping[str, Any] = connector.model_json_schema()
        for name, definition in _shared_records(schema, schema.get("$defs", {}), ""):
            used[definition] += 1
            records.setdefault(definition, (connector, name))
    assert all(used[definition] > 2 for definition in SHARED), used
    return KEYS + "".join(line for one, title in SHARED.items() for line in _record(title, *records[one]))


def _record(title: str, connector: type[Connector], within: str) -> Iterator[str]:
    found = [key for key in keys(connector) if key.name.startswith(f"{within}.")]
    yield f"\n## {title}\n\n{HEAD}"
    for key in found:
        name = key.name.removeprefix(f"{within}.")
        if name.startswith("key_password."):
            continue
        told = f"{key.description} [A secret](#a-secret)." if name == "key_password" else key.description
        yield row(key._replace(name=name, description=told))


COUNTED: Final = re.compile(r'(?:counter|gauge|histogram)\(\s*"([a-z0-9_]+)"')
ROOMS: Final = ("connectors", "walflow.net")


def _counted_by(connector: type[Connector]) -> set[str]:
    """The metrics that the modules count which the connector's own module needs, as far as they are its room's or the
    network's."""
    seen: set[str] = set()
    wanted = {connector.__module__}
    while wanted:
        seen |= wanted
        wanted = {needed for name in wanted for needed in _needed_by(name)} - seen
    return {metric for name in seen for metric in COUNTED.findall(_source(name))}


@cache
def _source(module: str) -> str:
    return Path(inspect.getsourcefile(import_module(module)) or "").read_text("utf-8")


@cache
def _needed_by(module: str) -> frozenset[str]:
    return frozenset(
        _home(node.module, name.name)
        for node in ast.walk(ast.parse(_source(module)))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(ROOMS)
        for name in node.names
    )


def _home(module: str, name: str) -> str:
    """The module that defines the name: a package's `__init__` re-exports what each of its modules has."""
    found = getattr(import_module(module), name, None)
    if inspect.ismodule(found):
        return found.__name__
    home = getattr(found, "__module__", None)
    return home if isinstance(home, str) and home.startswith(ROOMS) else module
