"""What there is to name in a flow file: types, their keys, codecs, modules and what is in them."""

from collections.abc import Mapping, Sequence
from typing import Final

from walflow import codecs, framing
from walflow.cli.connectors import ConfigKey, details, keys, summary
from walflow.cli.examples import guarantees
from walflow.cli.lsp.edited import EditedText
from walflow.cli.lsp.pointed import Within
from walflow.contract import Connector
from walflow.lang.documented import Documented, DocumentedModule, NotDocumented, read_module
from walflow.lang.files import known_modules, search_path
from walflow.operators import Operator, registered
from walflow.plugins import NotLoadable
from walflow.registry import connectors

SETTINGS: Final[Mapping[str, str]] = {
    "config": "The keys of the type. `walflow connectors show TYPE` lists them.",
    "codec": "How the bytes of one event become a value, and a value becomes bytes.",
    "preprocessors": "How a stream of bytes is divided into events.",
    "postprocessors": "What is done with the bytes of each event before they are written.",
}


def type_names(kind: str) -> list[str]:
    try:
        return sorted(connectors()) if kind == "connector" else sorted(registered())
    except NotLoadable:
        return []


def connector_type(name: str) -> type[Connector] | None:
    try:
        known = connectors()
        return known.get(name, None)
    except NotLoadable:
        return None


def operator_type(name: str) -> type[Operator] | None:
    try:
        return registered().get(name, None)
    except NotLoadable:
        return None


def described(kind: str, name: str) -> str | None:
    """Markdown: what a type is, what it guarantees, its keys."""
    of = connector_type(name) if kind == "connector" else operator_type(name)
    if of is None:
        return None
    lines = [f"**{name}** ({kind})", "", summary(of)]
    if issubclass(of, Connector):
        ports = [f"{side}: {', '.join(names) or 'none'}" for side, names in zip(("in", "out"), of.ports, strict=True)]
        lines += ["", f"Ports {'; '.join(ports)}. Codec: {of.traits.codec.value}."]
        for chosen, promised in guarantees(of):
            where = f" ({chosen})" if chosen else ""
            halves = (("As a source", promised.source), ("As a sink", promised.sink))
            lines += [line for half, words in halves if words for line in ("", f"{half}{where}: {words}.")]
    else:
        lines += ["", "```troy", of.example.rstrip(), "```"]
    for paragraph in details(of):
        lines += ["", paragraph]
    listed = keys(of)
    if listed:
        lines += ["", "| key | type | default | |", "|---|---|---|---|", *(_row(key) for key in listed)]
    return "\n".join(lines)


def _row(key: ConfigKey) -> str:
    cells = (f"`{key.name}`", key.type, f"`{key.default}`", key.description)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def keys_of(around: Within) -> tuple[str, Sequence[ConfigKey]]:
    """Of the record that a place is in: the prefix of its keys, as `tls.`, and those keys."""
    of: type[Connector | Operator] | None
    if around.kind == "connector":
        of, inner = connector_type(around.of), around.path[1:] if around.path[:1] == ("config",) else None
    else:
        of, inner = operator_type(around.of), around.path
    if of is None or inner is None:
        return "", ()
    prefix = "".join(one if one == "[]" else f".{one}" for one in inner).lstrip(".")
    prefix = f"{prefix}." if prefix else ""
    return prefix, [key for key in keys(of) if key.name.startswith(prefix)]


def key_text(key: ConfigKey) -> str:
    default = "required" if key.default == "required" else f"default: `{key.default}`"
    return f"**{key.name}**: {key.type}; {default}\n\n{key.description}".rstrip()


def wire_names(setting: str) -> Mapping[str, str]:
    """Of codecs or processors, with what each is."""
    try:
        if setting == "codec":
            made = codecs.registered()
            return {name: _first(made[name].__doc__) for name in sorted(made)}
        known = framing.preprocessors() if setting == "preprocessors" else framing.postprocessors()
        return {name: framing.registered()[name].description for name in sorted(known)}
    except NotLoadable:
        return {}


def _first(text: str | None) -> str:
    return " ".join((text or "").split("Raises")[0].split())


def module_names(text: EditedText) -> list[str]:
    return list(dict.fromkeys(known_modules([], search_path(text.path.parent))))


def module_doc(text: EditedText, path: Sequence[str]) -> DocumentedModule | None:
    try:
        return read_module("::".join(path), search_path(text.path.parent)) if path else None
    except NotDocumented:
        return None


def entry(text: EditedText, path: Sequence[str]) -> Documented | None:
    """`path`: with the whole name of its module."""
    module = module_doc(text, path[:-1])
    found = [one for one in module.entries if one.name == path[-1]] if module is not None else []
    return found[0] if found else None


def entry_text(module: str, one: Documented) -> str:
    lines = ["```tremor", one.head, "```", f"`{module}`", *(["", *one.says] if one.says else [])]
    return "\n".join([*lines, *(["", "```tremor", *one.examples, "```"] if one.examples else [])])
